/**
 * drain: a node takes no new pods, and its machines are evicted: they sleep, and their next pods wake them on other
 * nodes; a main agent that is pinned to the node sleeps until the node takes pods again. May be repeated and interrupted
 * at any moment. uncordon lets the node take pods again.
 */
import { isMachinePod, readMachineState } from "@cocoon/contract";
import { Fault, isFault } from "@cocoon/core";
import { nodes, pods, resourceType, type Eviction, type Pod } from "@cocoon/kube";
import { findNode, listAll, getName } from "../cluster/find.ts";
import { openSession, type ClusterOptions, type Session } from "../cluster/session.ts";
import { createWaiter, type Look, type WaitOptions } from "../cluster/wait.ts";
import { clusterOptions, waitOptions, type CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "drain <node>",
  summary: "empty a node: its machines hibernate and wake elsewhere",
  description:
    "Lets the node take no new pods and evicts its machines: they sleep, and wake on other nodes. A main agent that is pinned to the node sleeps until the node takes pods again. Disruption budgets are honoured. May be interrupted and repeated.",
  options: {
    "--dry-run": "print what would be evicted, do nothing",
    ...waitOptions("15m"),
    ...clusterOptions,
  },
  examples: ["cocoonctl drain cocoon-1", "cocoonctl drain cocoon-1 --timeout 30m"],
  run: drain,
};

export interface DrainOptions extends ClusterOptions, WaitOptions {
  readonly dryRun?: boolean;
}

const evictions = resourceType<Eviction>({ group: "", version: "v1", kind: "Eviction", plural: "pods" });

export async function drain(name: string, options: DrainOptions): Promise<void> {
  const wait = createWaiter(options);
  await using session = await openSession(options);
  const node = await findNode(session, name);
  const machines = await machinesOn(session, name);
  if (options.dryRun) {
    const lines = machines.map(({ metadata }) => `would evict ${metadata.namespace}/${metadata.name}`);
    process.stdout.write(`${[`would cordon ${name}`, ...lines].join("\n")}\n`);
    return;
  }
  if (node.spec?.unschedulable) process.stdout.write(`${name}: takes no new pods already\n`);
  else {
    await cordon(session, name, true);
    process.stdout.write(`${name}: takes no new pods now\n`);
  }
  if (!options.wait) {
    for (const machine of machines) await evict(session, machine);
    process.stdout.write(`${name}: ${machines.length} machines are to leave\n`);
    return;
  }
  await wait([{ name, look: () => lookDrained(session, name, machines.length) }], session);
}

export async function uncordon(name: string, options: ClusterOptions): Promise<void> {
  await using session = await openSession(options);
  await findNode(session, name);
  await cordon(session, name, false);
  process.stdout.write(`${name}: takes pods\n`);
}

async function cordon({ client, signal }: Session, name: string, on: boolean): Promise<void> {
  const patch = { type: "merge", body: { spec: { unschedulable: on ? true : null } } } as const;
  await client.patch(nodes, { key: { name }, patch }, { signal });
}

/** In all namespaces: a node is drained as a whole. */
async function machinesOn(session: Session, node: string): Promise<Pod[]> {
  return (await listAll(session, pods, { fieldSelector: `spec.nodeName=${node}` })).filter(isMachinePod);
}

async function lookDrained(session: Session, node: string, total: number): Promise<Look> {
  const left = await machinesOn(session, node);
  if (left.length === 0)
    return {
      kind: "done",
      text: `${node}: drained; ${total} ${total === 1 ? "machine" : "machines"} left it`,
    };
  const texts: string[] = [];
  for (const machine of left) {
    const held = machine.metadata.deletionTimestamp ? "" : await evict(session, machine);
    texts.push(`${getName(machine)} ${held || stateText(machine)}`);
  }
  const shown = texts.slice(0, 4).join(", ") + (texts.length > 4 ? ", …" : "");
  return {
    kind: "waiting",
    text: `${left.length} of ${Math.max(total, left.length)} machines still there: ${shown}`,
  };
}

function stateText(machine: Pod): string {
  if (!machine.metadata.deletionTimestamp) return "is evicted";
  const { message } = readMachineState(machine);
  return message === "" ? "goes to sleep" : `goes to sleep: ${message}`;
}

/** Why it is not evicted now; "" when it is. A disruption budget that forbids it now is tried again. */
export async function evict({ client, signal }: Session, { metadata }: Pod): Promise<string> {
  const { namespace = "", name = "", uid } = metadata;
  const eviction: Eviction = {
    apiVersion: "policy/v1",
    kind: "Eviction",
    metadata: { namespace, name },
    deleteOptions: uid ? { preconditions: { uid } } : {},
  };
  try {
    await client.create(evictions, eviction, { signal, subresource: "eviction" });
    return "";
  } catch (error) {
    if (isFault(error, "notFound") || isFault(error, "conflict")) return ""; // it went, or another pod has its name
    if (isFault(error, "tooManyRequests")) return `may not be evicted now: ${error.message}`;
    if (isFault(error, "forbidden"))
      throw new Fault(
        "forbidden",
        `evicting ${namespace}/${name} needs the right to create pods/eviction there`,
        { cause: error },
      );
    throw error;
  }
}
