/** Bandwidth shares of the classes: valid, of one kind, and together no more than there is. */
import {
  addQuantities,
  compareQuantities,
  quantityOf,
  tryParseQuantity,
  type Quantity,
} from "@cocoon/core/quantity";
import { jsonEqual } from "@cocoon/core/json-patch";
import type { ReadonlyJson } from "../json.ts";
import { zero } from "../resources.ts";
import { fieldIn, objectIn, type NodeProfile, type SloConfig } from "./slo-config.ts";

const classes = ["lsrClass", "lsClass", "beClass"] as const;
const directions = ["ingress", "egress"] as const;
type Direction = (typeof directions)[number];

/** One line for each thing that is wrong. */
export function networkTroubles(qos: SloConfig, system: SloConfig | undefined): string[] {
  const cluster = qos.cluster
    ? strategyTroubles("clusterStrategy", qos.cluster.raw, clusterTotal(system))
    : [];
  const nodes = qos.profiles.flatMap((profile, index) =>
    strategyTroubles(`nodeStrategies[${index}]`, profile.raw, nodeTotal(profile, system)),
  );
  return [...cluster, ...nodes];
}

function strategyTroubles(path: string, strategy: ReadonlyJson, total: Quantity | undefined): string[] {
  const shares = directions.flatMap((direction) =>
    classes.flatMap((name) => sharesOf({ path, strategy, name, direction })),
  );
  const invalid = shares.flatMap(({ trouble }) => trouble ?? []);
  if (invalid.length > 0) return invalid;
  const requests = shares.filter(({ isRequest }) => isRequest);
  if (new Set(requests.map(({ value }) => typeof value)).size > 1)
    return [`${path}: bandwidth requests must all be percentages or all be quantities`];
  return directions.flatMap((direction) =>
    sumTrouble(
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
  readonly trouble: string | undefined;
}

interface Place {
  readonly path: string;
  readonly strategy: ReadonlyJson;
  readonly name: string;
  readonly direction: Direction;
}

function sharesOf({ path, strategy, name, direction }: Place): Share[] {
  const qosClass = objectIn(strategy, name);
  const network = qosClass && objectIn(qosClass, "networkQOS");
  if (!network) return [];
  return ["Request", "Limit"].flatMap((part) => {
    const field = `${direction}${part}`;
    const value = fieldIn(network, field);
    if (value === undefined) return [];
    const trouble = isShare(value)
      ? undefined
      : `${path}.${name}.networkQOS.${field}: ${JSON.stringify(value)} must be a percentage from 0 to 100 or a quantity such as 50M`;
    return [{ direction, isRequest: part === "Request", value, trouble }];
  });
}

function isShare(value: unknown): boolean {
  if (typeof value === "number") return Number.isInteger(value) && value >= 0 && value <= 100;
  const quantity = typeof value === "string" ? tryParseQuantity(value) : undefined;
  return quantity !== undefined && compareQuantities(quantity, zero) >= 0;
}

function sumTrouble(path: string, requests: readonly Share[], total: Quantity | undefined): string[] {
  const [first] = requests;
  if (!first) return [];
  const sum = requests.reduce((before, { value }) => addQuantities(before, shareQuantity(value)), zero);
  if (typeof first.value === "number")
    return compareQuantities(sum, quantityOf(100)) > 0
      ? [`${path}: ${first.direction} total net bandwidth percentage already over 100`]
      : [];
  return total && compareQuantities(sum, total) > 0
    ? [`${path}: ${first.direction} total net bandwidth already over totalNetworkBandwidth of system-config`]
    : [];
}

function shareQuantity(value: unknown): Quantity {
  return typeof value === "number" ? quantityOf(value) : (tryParseQuantity(String(value)) ?? zero);
}

/** Undefined when nobody says how much there is. */
function clusterTotal(system: SloConfig | undefined): Quantity | undefined {
  return system?.cluster && totalOf(system.cluster.raw);
}

function nodeTotal(profile: NodeProfile, system: SloConfig | undefined): Quantity | undefined {
  const same = system?.profiles.find((each) => jsonEqual(each.nodeSelector, profile.nodeSelector));
  return (same && totalOf(same.raw)) ?? clusterTotal(system);
}

function totalOf(strategy: ReadonlyJson): Quantity | undefined {
  const value = fieldIn(strategy, "totalNetworkBandwidth");
  return typeof value === "string" || typeof value === "number" ? tryParseQuantity(value) : undefined;
}
