/** `/validate-configmap`: the SLO configuration, key by key. */
import { getErrorMessage } from "@cocoon/core";
import { allow, type AdmissionHandler } from "@cocoon/kube/admission";
import type { Gates } from "../gates.ts";
import {
  evaluateNow,
  getReviewedObject,
  handleResource,
  type HandledResource,
  type RulePolicy,
} from "../handlers.ts";
import { isRecord, own, readObject, readText, readTexts, type ReadonlyJson, type Texts } from "../json.ts";
import type { Refusal } from "../rules.ts";
import type { ClusterView } from "../view.ts";
import { findNetworkProblems } from "./network-rules.ts";
import {
  compiledProfiles,
  nodeConflict,
  overlap,
  structured,
  compiledSelector,
  listBoundProblems,
  parseSloConfig,
  parseSloConfigs,
  sloKeys,
  type SloConfig,
} from "./slo-config.ts";
import { shapes, type SloKey } from "./slo-types.ts";
import { findOtherKeyProblems, otherSloKeys, findWordProblems } from "./strict-rules.ts";

export interface ConfigMapOptions {
  readonly view: ClusterView;
  readonly gates: Gates;
  readonly policy: RulePolicy;
  readonly namespace: string;
  readonly name: string;
  /** Profiles must have names, and each its own. */
  readonly namesNeeded: boolean;
}

const configMapKind: HandledResource = { resource: "configmaps", kind: "ConfigMap" };

export function configMapValidator(options: ConfigMapOptions): AdmissionHandler {
  return handleResource(configMapKind, (request) => {
    if (request.operation === "DELETE" || request.operation === "CONNECT") return allow();
    const object = getReviewedObject(request, configMapKind);
    const metadata = readObject(object, "metadata", "metadata") ?? {};
    const name = readText(metadata, "name", "metadata.name") || request.name;
    const namespace = readText(metadata, "namespace", "metadata.namespace") || request.namespace;
    if (name !== options.name || namespace !== options.namespace) return allow();
    const data = readTexts(object, "data", "data");
    const before = request.operation === "UPDATE" ? oldData(request.oldObject) : {};
    return evaluateNow(groups({ data, before }, options), options.policy);
  });
}

function oldData(object: ReadonlyJson | undefined): Texts {
  const data = object && own(object, "data");
  return isRecord(data) ? (data as Texts) : {};
}

interface Change {
  readonly data: Texts;
  readonly before: Texts;
}

type Group = () => Iterable<Refusal>;

function groups(change: Change, options: ConfigMapOptions): Group[] {
  const { data, before } = change;
  const isChanged = (key: string) => Boolean(data[key]) && data[key] !== before[key];
  const changed = sloKeys.filter(isChanged);
  const others = options.gates.SLOConfigStrict ? otherSloKeys.filter(isChanged) : [];
  return [
    ...changed.map((key) => () => keyRules(key, data, options)),
    ...others.map((key) => () => strictRefusals(findOtherKeyProblems(key, data[key] ?? ""))),
    () => nodeRules(changed, data, options.view),
  ];
}

/** Only the first problem of a key is reported; the rest would only follow from it. */
function* keyRules(key: SloKey, data: Texts, options: ConfigMapOptions): Generator<Refusal> {
  let config: SloConfig;
  try {
    config = parseSloConfig(key, data[key] ?? "");
  } catch (error) {
    const { namespace, name } = options;
    const message = `Failed to parse ${shapes[key].title} config in configmap ${namespace}/${name}, err: ${getErrorMessage(error)}`;
    yield { rule: "slo-parse", message: structured("ParseConfigFail", message) };
    return;
  }
  for (const rule of [
    selectorRules,
    boundRules,
    strictRulesIf(options.gates),
    nameRulesIf(options),
    overlapRules,
  ]) {
    const refusals = [...rule(config)];
    yield* refusals;
    if (refusals.length > 0) return;
  }
  if (key === "resource-qos-config") yield* networkRules(config, data);
}

function* selectorRules({ key, profiles }: SloConfig): Generator<Refusal> {
  for (const [index, profile] of profiles.entries()) {
    const problem = compiledSelector(profile);
    if (typeof problem !== "string") continue;
    const message = `${key}: node profile ${index} "${profile.name}": ${problem}`;
    yield { rule: "slo-selector", message: structured("ConfigParamInvalid", message) };
    return;
  }
}

function* boundRules(config: SloConfig): Generator<Refusal> {
  const problems = listBoundProblems(config);
  if (Object.keys(problems).length > 0)
    yield { rule: "slo-bounds", message: structured("ConfigParamInvalid", problems) };
}

const strictRulesIf = (gates: Gates) => (config: SloConfig) =>
  gates.SLOConfigStrict ? strictRefusals(findWordProblems(config)) : [];

function strictRefusals(problems: readonly string[]): Refusal[] {
  return problems.length === 0
    ? []
    : [{ rule: "slo-bounds", message: structured("ConfigParamInvalid", problems.join("; ")) }];
}

const nameRulesIf =
  ({ namesNeeded }: ConfigMapOptions) =>
  (config: SloConfig) =>
    namesNeeded ? nameRules(config) : [];

function nameRules({ key, profiles }: SloConfig): Refusal[] {
  const names = profiles.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  const message = names.includes("")
    ? `${key}: every node profile needs a name`
    : twice !== undefined
      ? `${key}: node profile name "${twice}" is used twice`
      : undefined;
  return message === undefined
    ? []
    : [{ rule: "slo-names", message: structured("ConfigParamInvalid", message) }];
}

function* overlapRules(config: SloConfig): Generator<Refusal> {
  const strategies = overlap(compiledProfiles(config));
  if (strategies)
    yield {
      rule: "slo-overlap",
      message: structured("NodeStrategiesOverlap", { config: config.key, strategies }),
    };
}

function* networkRules(config: SloConfig, data: Texts): Generator<Refusal> {
  const [system] = parseSloConfigs(["system-config"], data);
  const problems = findNetworkProblems(config, system);
  if (problems.length > 0) yield { rule: "slo-network", message: problems.join("; ") };
}

/** Nodes that are there already, against every changed key with several profiles. */
function* nodeRules(changed: readonly SloKey[], data: Texts, view: ClusterView): Generator<Refusal> {
  const configs = parseSloConfigs(changed, data);
  if (!configs.some(({ profiles }) => profiles.length > 1)) return;
  for (const { metadata } of view.nodes()) {
    const conflict = nodeConflict(configs, { name: metadata.name ?? "", labels: metadata.labels ?? {} });
    if (conflict === undefined) continue;
    yield { rule: "slo-node-conflict", message: conflict };
    return;
  }
}
