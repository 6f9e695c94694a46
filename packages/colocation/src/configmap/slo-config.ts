/**
 * One key of the SLO configuration, parsed as Go would: field names without regard to case, unknown ones ignored, null
 * as absent. A strategy is a list of blocks, each with the path that messages name and the values found.
 */
import { Fault } from "@cocoon/core";
import { requirementsOf, type LabelRequirement, type LabelSelector } from "@cocoon/core/label-selector";
import { messageOf } from "@cocoon/core";
import { isRecord, type ReadonlyJson } from "../json.ts";
import {
  colocationFields,
  cpuBurstFields,
  cpuBurstPoolFields,
  cpuQosFields,
  memoryQosFields,
  resctrlQosFields,
  systemFields,
  thresholdFields,
  goName,
  type Field,
} from "./slo-fields.ts";

export const sloKeys = [
  "colocation-config",
  "resource-threshold-config",
  "resource-qos-config",
  "system-config",
  "cpu-burst-config",
] as const;

export type SloKey = (typeof sloKeys)[number];

/** Fields of one struct. */
export interface Block {
  readonly path: string;
  readonly fields: readonly Field[];
  readonly values: ReadonlyMap<string, number>;
}

export interface Strategy {
  readonly blocks: readonly Block[];
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

interface Shape {
  readonly title: string;
  readonly root: string;
  /** Undefined: the cluster's strategy is the document itself. */
  readonly cluster: string | undefined;
  readonly profiles: string;
  /** Go name of the struct that a profile embeds. */
  readonly embedded: string;
  readonly blocks: (strategy: ReadonlyJson, path: string) => Block[];
}

const flat = (fields: readonly Field[]) => (strategy: ReadonlyJson, path: string) => [
  block(strategy, path, fields),
];

const shapes: Readonly<Record<SloKey, Shape>> = {
  "colocation-config": {
    title: "colocation",
    root: "ColocationCfg",
    cluster: undefined,
    profiles: "nodeConfigs",
    embedded: "ColocationStrategy",
    blocks: flat(colocationFields),
  },
  "resource-threshold-config": {
    title: "resource threshold",
    root: "ResourceThresholdCfg",
    cluster: "clusterStrategy",
    profiles: "nodeStrategies",
    embedded: "ResourceThresholdStrategy",
    blocks: flat(thresholdFields),
  },
  "resource-qos-config": {
    title: "resource qos",
    root: "ResourceQOSCfg",
    cluster: "clusterStrategy",
    profiles: "nodeStrategies",
    embedded: "ResourceQOSStrategy",
    blocks: qosBlocks,
  },
  "system-config": {
    title: "system",
    root: "SystemCfg",
    cluster: "clusterStrategy",
    profiles: "nodeStrategies",
    embedded: "SystemStrategy",
    blocks: flat(systemFields),
  },
  "cpu-burst-config": {
    title: "cpu burst",
    root: "CPUBurstCfg",
    cluster: "clusterStrategy",
    profiles: "nodeStrategies",
    embedded: "CPUBurstStrategy",
    blocks: (strategy, path) => [
      block(strategy, `${path}.CPUBurstConfig`, cpuBurstFields),
      block(strategy, path, cpuBurstPoolFields),
    ],
  },
};

export const titleOf = (key: SloKey): string => shapes[key].title;

const qosClasses = ["lsrClass", "lsClass", "beClass", "systemClass", "cgroupRoot"] as const;

const qosParts: readonly (readonly [json: string, go: string, fields: readonly Field[]])[] = [
  ["cpuQOS", "CPUQOS", cpuQosFields],
  ["memoryQOS", "MemoryQOS", memoryQosFields],
  ["resctrlQOS", "ResctrlQOS", resctrlQosFields],
];

function qosBlocks(strategy: ReadonlyJson, path: string): Block[] {
  return qosClasses.flatMap((name) => {
    const qosClass = objectIn(strategy, name);
    if (!qosClass) return [];
    return qosParts.flatMap(([json, go, fields]) => {
      const part = objectIn(qosClass, json);
      return part ? [block(part, `${path}.${goName(name)}.${go}.${go}`, fields)] : [];
    });
  });
}

/** Throws an `invalid` fault with the reason when it cannot be parsed. */
export function parseSloConfig(key: SloKey, text: string): SloConfig {
  const shape = shapes[key];
  const document = parseObject(text);
  const clusterPath =
    shape.cluster === undefined ? `${shape.root}.${shape.embedded}` : `${shape.root}.ClusterStrategy`;
  const cluster = shape.cluster === undefined ? document : objectIn(document, shape.cluster);
  return {
    key,
    cluster: cluster && { raw: cluster, blocks: shape.blocks(cluster, clusterPath) },
    profiles: listIn(document, shape.profiles).map((raw, index) => {
      const path = `${shape.root}.${goName(shape.profiles)}[${index}].${shape.embedded}`;
      return {
        raw,
        name: textIn(raw, "name"),
        nodeSelector: selectorIn(raw),
        blocks: shape.blocks(raw, path),
      };
    }),
  };
}

function parseObject(text: string): ReadonlyJson {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Fault("invalid", messageOf(error));
  }
  if (!isRecord(value)) throw new Fault("invalid", "the value must be a JSON object");
  return value;
}

function block(object: ReadonlyJson, path: string, fields: readonly Field[]): Block {
  const values = new Map<string, number>();
  for (const { json, type } of fields) {
    const value = fieldIn(object, json);
    if (value === undefined) continue;
    if (typeof value !== "number" || (type === "integer" && !Number.isInteger(value)))
      throw new Fault(
        "invalid",
        `${path}.${goName(json)} must be ${type === "integer" ? "a whole number" : "a number"}`,
      );
    values.set(json, value);
  }
  return { path, fields, values };
}

/** Go takes a field's name in any case, an exact one first. */
export function fieldIn(object: ReadonlyJson, name: string): unknown {
  if (Object.hasOwn(object, name)) return object[name] ?? undefined;
  const key = Object.keys(object).find((each) => each.toLowerCase() === name.toLowerCase());
  return key === undefined ? undefined : (object[key] ?? undefined);
}

export function objectIn(object: ReadonlyJson, name: string): ReadonlyJson | undefined {
  const value = fieldIn(object, name);
  if (value === undefined) return undefined;
  if (!isRecord(value)) throw new Fault("invalid", `${name} must be an object`);
  return value;
}

function listIn(object: ReadonlyJson, name: string): readonly ReadonlyJson[] {
  const value = fieldIn(object, name);
  if (value === undefined) return [];
  if (!Array.isArray(value) || !value.every(isRecord))
    throw new Fault("invalid", `${name} must be a list of objects`);
  return value;
}

function textIn(object: ReadonlyJson, name: string): string {
  const value = fieldIn(object, name) ?? "";
  if (typeof value !== "string") throw new Fault("invalid", `${name} must be a string`);
  return value;
}

function selectorIn(profile: ReadonlyJson): LabelSelector | undefined {
  const selector = objectIn(profile, "nodeSelector");
  if (!selector) return undefined;
  const matchLabels = objectIn(selector, "matchLabels") ?? {};
  const texts = Object.entries(matchLabels).map(([key, value]) => {
    if (typeof value !== "string")
      throw new Fault("invalid", `nodeSelector.matchLabels[${key}] must be a string`);
    return [key, value] as const;
  });
  const matchExpressions = listIn(selector, "matchExpressions").map((each) => ({
    key: textIn(each, "key"),
    operator: textIn(each, "operator"),
    values: valuesIn(each),
  }));
  return { matchLabels: Object.fromEntries(texts), matchExpressions };
}

function valuesIn(expression: ReadonlyJson): string[] {
  const value = fieldIn(expression, "values") ?? [];
  if (!Array.isArray(value) || !value.every((item) => typeof item === "string"))
    throw new Fault("invalid", "values of a matchExpression must be a list of strings");
  return value;
}

/** The profile's selector, or why it has none that can be used. */
export function compiledSelector({ nodeSelector }: NodeProfile): readonly LabelRequirement[] | string {
  const isEmpty =
    !nodeSelector ||
    (Object.keys(nodeSelector.matchLabels ?? {}).length === 0 &&
      (nodeSelector.matchExpressions ?? []).length === 0);
  if (isEmpty) return "nodeSelector must not be empty";
  try {
    return requirementsOf(nodeSelector);
  } catch (error) {
    return `nodeSelector: ${messageOf(error)}`;
  }
}
