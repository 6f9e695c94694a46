/** Bandwidth shares of the classes: valid, of one kind, and together no more than there is. */
import {
  addQuantities,
  compareQuantities,
  createQuantity,
  tryParseQuantity,
  type Quantity,
} from "@cocoon/core/quantity";
import { jsonEqual } from "@cocoon/core/json-patch";
import type { ReadonlyJson } from "../json.ts";
import { zero } from "../resources.ts";
import { fieldIn } from "./go-types.ts";
import { objectIn, type NodeProfile, type SloConfig } from "./slo-config.ts";

const classes = ["lsrClass", "lsClass", "beClass"] as const;
const directions = ["ingress", "egress"] as const;
type Direction = (typeof directions)[number];

export function findNetworkProblems(qos: SloConfig, system: SloConfig | undefined): string[] {
  const cluster = qos.cluster
    ? findStrategyProblems("clusterStrategy", qos.cluster.raw, clusterTotal(system))
    : [];
  const nodes = qos.profiles.flatMap((profile, index) =>
    findStrategyProblems(`nodeStrategies[${index}]`, profile.raw, nodeTotal(profile, system)),
  );
  return [...cluster, ...nodes];
}

function findStrategyProblems(path: string, strategy: ReadonlyJson, total: Quantity | undefined): string[] {
  const shares = directions.flatMap((direction) =>
    classes.flatMap((name) => readShares({ path, strategy, name, direction })),
  );
  const invalid = shares.flatMap(({ problem }) => problem ?? []);
  if (invalid.length > 0) return invalid;
  const requests = shares.filter(({ isRequest }) => isRequest);
  if (new Set(requests.map(({ value }) => typeof value)).size > 1)
    return [`${path}: bandwidth requests must all be percentages or all be quantities`];
  return directions.flatMap((direction) =>
    findSumProblem(
      path,
      requests.filter((each) => each.direction === direction),
      total,
    ),
  );
}

interface Share {
  readonly direction: Direction;
  readonly isRequest: boolean;
  readonly value: unknown;
  readonly problem: string | undefined;
}

interface Place {
  readonly path: string;
  readonly strategy: ReadonlyJson;
  readonly name: string;
  readonly direction: Direction;
}

function readShares({ path, strategy, name, direction }: Place): Share[] {
  const qosClass = objectIn(strategy, name);
  const network = qosClass && objectIn(qosClass, "networkQOS");
  if (!network) return [];
  return ["Request", "Limit"].flatMap((part) => {
    const field = `${direction}${part}`;
    const value = fieldIn(network, field);
    if (value === undefined) return [];
    const problem = isShare(value)
      ? undefined
      : `${path}.${name}.networkQOS.${field}: ${JSON.stringify(value)} must be a percentage from 0 to 100 or a quantity such as 50M`;
    return [{ direction, isRequest: part === "Request", value, problem }];
  });
}

function isShare(value: unknown): boolean {
  if (typeof value === "number") return Number.isInteger(value) && value >= 0 && value <= 100;
  const quantity = typeof value === "string" ? tryParseQuantity(value) : undefined;
  return quantity !== undefined && compareQuantities(quantity, zero) >= 0;
}

function findSumProblem(path: string, requests: readonly Share[], total: Quantity | undefined): string[] {
  const [first] = requests;
  if (!first) return [];
  const sum = requests.reduce((before, { value }) => addQuantities(before, shareQuantity(value)), zero);
  if (typeof first.value === "number")
    return compareQuantities(sum, createQuantity(100)) > 0
      ? [`${path}: ${first.direction} total net bandwidth percentage already over 100`]
      : [];
  return total && compareQuantities(sum, total) > 0
    ? [`${path}: ${first.direction} total net bandwidth already over totalNetworkBandwidth of system-config`]
    : [];
}

function shareQuantity(value: unknown): Quantity {
  return typeof value === "number" ? createQuantity(value) : (tryParseQuantity(String(value)) ?? zero);
}

function clusterTotal(system: SloConfig | undefined): Quantity | undefined {
  return system?.cluster && readTotal(system.cluster.raw);
}

function nodeTotal(profile: NodeProfile, system: SloConfig | undefined): Quantity | undefined {
  const same = system?.profiles.find((each) => jsonEqual(each.nodeSelector, profile.nodeSelector));
  return (same && readTotal(same.raw)) ?? clusterTotal(system);
}

function readTotal(strategy: ReadonlyJson): Quantity | undefined {
  const value = fieldIn(strategy, "totalNetworkBandwidth");
  return typeof value === "string" || typeof value === "number" ? tryParseQuantity(value) : undefined;
}
