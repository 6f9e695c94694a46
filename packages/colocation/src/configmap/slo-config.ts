/** One key of the SLO configuration, parsed as Go would. A strategy has the path that messages name. */
import { Fault, getErrorMessage, ignoreFault } from "@cocoon/core";
import {
  parseRequirements,
  type LabelRequirement,
  type LabelSelector,
  matchesLabels,
} from "@cocoon/core/label-selector";
import { isRecord, type ReadonlyJson, type Texts } from "../json.ts";
import { fieldIn, findBoundProblems, findTypeMismatch, goName } from "./go-types.ts";
import { getDocumentType, getPlaces, shapes, type SloKey } from "./slo-types.ts";

export const sloKeys = Object.keys(shapes) as SloKey[];

export interface Strategy {
  readonly path: string;
  readonly raw: ReadonlyJson;
}

export interface NodeProfile extends Strategy {
  readonly name: string;
  readonly nodeSelector: LabelSelector | undefined;
}

export interface SloConfig {
  readonly key: SloKey;
  readonly cluster: Strategy | undefined;
  readonly profiles: readonly NodeProfile[];
}

/** Throws an `invalid` fault with the reason when it cannot be parsed. */
export function parseSloConfig(key: SloKey, text: string): SloConfig {
  const { go } = shapes[key];
  const places = getPlaces(key);
  const document = parseObject(text);
  const mismatch = findTypeMismatch(document, getDocumentType(key), "");
  if (mismatch !== undefined) throw new Fault("invalid", mismatch);
  const cluster = places.cluster === undefined ? document : objectIn(document, places.cluster);
  const clusterPath = `${go}Cfg.${places.cluster === undefined ? `${go}Strategy` : goName(places.cluster)}`;
  return {
    key,
    cluster: cluster && { raw: cluster, path: clusterPath },
    profiles: listIn(document, places.profiles).map((raw, index) => ({
      raw,
      path: `${go}Cfg.${goName(places.profiles)}[${index}].${go}Strategy`,
      name: textIn(raw, "name"),
      nodeSelector: selectorIn(raw),
    })),
  };
}

/** Those of the keys that can be parsed; the others are reported when the map is changed. */
export function parseSloConfigs(keys: readonly SloKey[], data: Texts): SloConfig[] {
  return keys.flatMap(
    (key) => ignoreFault("invalid", () => (data[key] ? [parseSloConfig(key, data[key])] : [])) ?? [],
  );
}

function parseObject(text: string): ReadonlyJson {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Fault("invalid", getErrorMessage(error));
  }
  if (!isRecord(value)) throw new Fault("invalid", "the value must be a JSON object");
  return value;
}

/** Path of each field that is out of bounds, and what it must be; one text per field, sorted by path. */
export function listBoundProblems({ key, cluster, profiles }: SloConfig): Record<string, string> {
  const problems = [...(cluster ? [cluster] : []), ...profiles].flatMap(({ raw, path }) => [
    ...findBoundProblems(raw, shapes[key].strategy, path),
  ]);
  return Object.fromEntries(problems.toSorted(([left], [right]) => (left < right ? -1 : 1)));
}

/** The readers below are for a document whose types were checked; null is the zero value, as in Go. */
export function objectIn(object: ReadonlyJson, name: string): ReadonlyJson | undefined {
  return fieldIn(object, name) as ReadonlyJson | undefined;
}

function listIn(object: ReadonlyJson, name: string): readonly ReadonlyJson[] {
  const list = (fieldIn(object, name) ?? []) as readonly (ReadonlyJson | null)[];
  return list.map((item) => item ?? {});
}

function textIn(object: ReadonlyJson, name: string): string {
  return textOrEmpty(fieldIn(object, name));
}

function textOrEmpty(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function selectorIn(profile: ReadonlyJson): LabelSelector | undefined {
  const selector = objectIn(profile, "nodeSelector");
  if (!selector) return undefined;
  return {
    matchLabels: Object.fromEntries(
      Object.entries(objectIn(selector, "matchLabels") ?? {}).map(([key, value]) => [
        key,
        textOrEmpty(value),
      ]),
    ),
    matchExpressions: listIn(selector, "matchExpressions").map((each) => ({
      key: textIn(each, "key"),
      operator: textIn(each, "operator"),
      values: ((fieldIn(each, "values") ?? []) as readonly unknown[]).map(textOrEmpty),
    })),
  };
}

/** The profile's selector, or why it has none that can be used. */
export function compiledSelector({ nodeSelector }: NodeProfile): readonly LabelRequirement[] | string {
  const isEmpty =
    !nodeSelector ||
    (Object.keys(nodeSelector.matchLabels ?? {}).length === 0 &&
      (nodeSelector.matchExpressions ?? []).length === 0);
  if (isEmpty) return "nodeSelector must not be empty";
  try {
    return parseRequirements(nodeSelector);
  } catch (error) {
    return `nodeSelector: ${getErrorMessage(error)}`;
  }
}

/** Two profiles must never select the same node. */
interface Compiled {
  readonly name: string;
  readonly requirements: readonly LabelRequirement[];
  readonly profile: NodeProfile;
}

export function compiledProfiles({ profiles }: SloConfig): Compiled[] {
  return profiles.flatMap((profile) => {
    const requirements = compiledSelector(profile);
    return typeof requirements === "string" ? [] : [{ name: profile.name, requirements, profile }];
  });
}

function selecting(profiles: readonly Compiled[], labels: Texts): string[] {
  return profiles.filter(({ requirements }) => matchesLabels(requirements, labels)).map(({ name }) => name);
}

const maxSamples = 1_000;

/** The first label set, spelled out by one of the profiles, that two or more of them select. */
export function overlap(profiles: readonly Compiled[]): string[] | undefined {
  for (const { profile } of profiles)
    for (const labels of samples(profile)) {
      const names = selecting(profiles, labels);
      if (names.length > 1) return names;
    }
  return undefined;
}

/** matchLabels, and of each matchExpression with values one of them in turn; as many as there are combinations. */
function* samples({ nodeSelector = {} }: NodeProfile): Generator<Texts> {
  const lists = (nodeSelector.matchExpressions ?? []).filter(({ values = [] }) => values.length > 0);
  const product = lists.reduce((total, { values = [] }) => Math.min(total * values.length, maxSamples), 1);
  for (let index = 0; index < product; index += 1) {
    const labels: Record<string, string> = { ...nodeSelector.matchLabels };
    for (const { key, values = [] } of lists) labels[key] = values[index % values.length] ?? "";
    yield labels;
  }
}

/** The message about the first such key; undefined when there is none. The reason's spelling is what tools look for. */
export function nodeConflict(
  configs: readonly SloConfig[],
  node: { readonly name: string; readonly labels: Texts },
): string | undefined {
  for (const config of configs) {
    if (config.profiles.length < 2) continue;
    const strategies = selecting(compiledProfiles(config), node.labels);
    if (strategies.length > 1)
      return structured("ExistNodeConfict", { config: config.key, strategies, exampleNodes: [node.name] });
  }
  return undefined;
}

/** Messages that tools find again inside what the API server makes of them. */
export function structured(reason: string, message: unknown): string {
  return `___${JSON.stringify({ reason, message })}___`;
}
