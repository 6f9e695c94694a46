/** migrate: the main agent of a set goes to another node (`spec.nodeName`); it sleeps on the way. */
import { label, readMachineLabels } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import { awaitSet } from "../cluster/await-set.ts";
import { findMachine, findNode, findSet, getName, tryGet } from "../cluster/find.ts";
import { cocoonSets } from "../cluster/kinds.ts";
import { openSession, type ClusterOptions, type Session } from "../cluster/session.ts";
import { lookMoved } from "../cluster/set-progress.ts";
import { createWaiter, type WaitOptions } from "../cluster/wait.ts";
import { commandName } from "../invocation.ts";
import { clusterOptions, waitOptions, type CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "migrate <set> [node]",
  summary: "move a set's main agent to another node",
  description:
    "Moves the main agent: it sleeps, and wakes on the node exactly where it was. A node that cannot take it is refused before anything happens; a move that takes too long goes back.",
  options: {
    "--to <node>": "the same as NODE (default: NODE)",
    "--unpin": "remove the pin to a node; the machine stays where it is",
    ...waitOptions("10m"),
    ...clusterOptions,
  },
  examples: ["cocoonctl migrate demo cocoon-2", "cocoonctl migrate demo --unpin"],
  run: migrate,
};

interface MigrateOptions extends ClusterOptions, WaitOptions {
  readonly to?: string;
  readonly unpin?: boolean;
}

async function migrate(name: string, node: string | undefined, options: MigrateOptions): Promise<void> {
  const wait = createWaiter(options);
  const target = node ?? options.to;
  if (target === undefined && !options.unpin)
    throw new Fault(
      "badRequest",
      `name the target node: ${commandName()} migrate ${name} NODE (kubectl get nodes lists them)`,
    );
  if (target !== undefined && options.unpin)
    throw new Fault("badRequest", "a node and --unpin contradict each other; give one of them");
  await using session = await openSession(options);
  const { client, namespace, signal } = session;
  const set = await findOwningSet(session, name);
  const key = { namespace, name: set };
  const write = (nodeName: string | null) =>
    client.patch(cocoonSets, { key, patch: { type: "merge", body: { spec: { nodeName } } } }, { signal });
  if (target === undefined) {
    await write(null);
    process.stdout.write(`${set}: may run on any node of its pool; it stays where it is\n`);
    return;
  }
  const found = await findNode(session, target);
  if (found.spec?.unschedulable)
    throw new Fault(
      "conflict",
      `node ${target} takes no new pods; allow it first with: kubectl uncordon ${target}`,
    );
  const written = await write(target);
  if (!options.wait) process.stdout.write(`${set}: its main agent is to move to ${target}\n`);
  await wait([awaitSet(session, written, (now, at) => lookMoved(now, { ...at, node: target }))], session);
}

/** A set by its name or by its main agent's; other machines stay where they are. */
async function findOwningSet(session: Session, name: string): Promise<string> {
  if (await tryGet(session, cocoonSets, { namespace: session.namespace, name })) return name;
  const looksLikeMachine = /-[^-]+$/.test(name);
  if (!looksLikeMachine) return getName(await findSet(session, name));
  const pod = await findMachine(session, name, { mainOfSet: true });
  const labels = readMachineLabels(pod.metadata.labels);
  if (labels?.role === "main") return labels.set;
  throw new Fault(
    "badRequest",
    labels
      ? `${name} is a ${labels.role} of set ${labels.set}: only the main agent is moved (migrate ${labels.set} NODE); to empty a node use drain`
      : `${name} belongs to no set (${label.set} is not set); delete its pod, and its owner makes it again where there is room`,
  );
}
