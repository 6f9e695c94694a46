/** A history as data: each step is some operations at once, with faults at given times after they were requested. */
import * as z from "zod";
import { nodeNames, partNames } from "./parts.ts";
import { milestones, registryFaults } from "./registry-proxy.ts";

const name = z.string().min(1).max(40);
const milliseconds = z.int().min(0).max(600_000);

const operationSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("create"), set: name, replicas: z.int().min(0).max(3) }),
  z.object({ kind: z.literal("delete"), set: name }),
  z.object({ kind: z.literal("scale"), set: name, replicas: z.int().min(0).max(3) }),
  z.object({ kind: z.literal("suspend"), set: name }),
  z.object({ kind: z.literal("resume"), set: name }),
  z.object({ kind: z.literal("hibernate"), pod: name }),
  z.object({ kind: z.literal("wake"), pod: name }),
  z.object({ kind: z.literal("migrate"), set: name, node: z.enum(nodeNames) }),
  z.object({ kind: z.literal("drain"), node: z.enum(nodeNames) }),
  z.object({ kind: z.literal("rollout"), set: name }),
  /** The snapshot `latest` of a machine that ended becomes a new set. */
  z.object({ kind: z.literal("restore"), pod: name, as: name }),
  /** The snapshot that a machine is hibernated in becomes a new set; the machine stays hibernated. */
  z.object({ kind: z.literal("clone"), pod: name, as: name }),
  z.object({ kind: z.literal("schedule"), set: name }),
]);
export type Operation = z.infer<typeof operationSchema>;

const faultSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("kill"), part: z.enum(partNames) }),
  z.object({ kind: z.literal("pause"), part: z.enum(partNames), forMs: milliseconds }),
  z.object({ kind: z.literal("killGuest"), pod: name }),
  z.object({ kind: z.literal("pauseGuest"), pod: name, forMs: milliseconds }),
  z.object({ kind: z.literal("killPageServer"), pod: name }),
  z.object({ kind: z.literal("powerCut") }),
  z.object({ kind: z.literal("registry"), fault: z.enum(registryFaults), forMs: milliseconds }),
  z.object({ kind: z.literal("clock"), part: z.enum(partNames), offsetMs: z.int(), forMs: milliseconds }),
  z.object({ kind: z.literal("etcdRestore") }),
  z.object({ kind: z.literal("nodeLost"), node: z.enum(nodeNames) }),
]);
export type Fault = z.infer<typeof faultSchema>;

/** When: so long after the operation was requested or, with `on`, after that request reached the registry. */
const placeSchema = z.object({ afterMs: milliseconds, on: z.enum(milestones).optional() });
const placedFaultSchema = z.intersection(faultSchema, placeSchema);
export type PlacedFault = z.infer<typeof placedFaultSchema>;

const stepSchema = z.object({
  /** etcd is copied before the step; a later `etcdRestore` puts the last copy back. */
  copiesEtcd: z.boolean().optional(),
  operations: z.array(operationSchema).max(4),
  faults: z.array(placedFaultSchema).max(12),
});
export type Step = z.infer<typeof stepSchema>;

const historySchema = z.object({ seed: z.int().optional(), steps: z.array(stepSchema).max(100_000) });
export type HistoryFile = z.infer<typeof historySchema>;

export function parseHistory(text: string): HistoryFile {
  return historySchema.parse(JSON.parse(text));
}

export function describeStep({ copiesEtcd, operations, faults }: Step): string {
  const requests = operations.map(({ kind, ...rest }) =>
    [kind, ...Object.values(rest).map(String)].join(" "),
  );
  const texts = [
    ...(copiesEtcd ? ["copy etcd"] : []),
    requests.length === 0 ? "no operation" : requests.join(" + "),
    ...faults.map((each) => `${describeFault(each)} ${each.afterMs} ms after ${each.on ?? "request"}`),
  ];
  return texts.join(" | ");
}

export function describeFault(fault: Fault): string {
  const { kind, ...rest } = fault;
  const values = Object.entries(rest).flatMap(([field, value]) =>
    field === "afterMs" || field === "on" ? [] : [String(value)],
  );
  return [kind, ...values].join(" ");
}
