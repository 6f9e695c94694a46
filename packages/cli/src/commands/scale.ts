/** scale: how many sub-agents a set has beside its main agent. By the scale subresource, as kubectl does it. */
import { Fault } from "@cocoon/core";
import { awaitSet } from "../cluster/await-set.ts";
import { findSet } from "../cluster/find.ts";
import { cocoonSets } from "../cluster/kinds.ts";
import { openSession, type ClusterOptions } from "../cluster/session.ts";
import { lookScaled } from "../cluster/set-progress.ts";
import { createWaiter, type WaitOptions } from "../cluster/wait.ts";
import { commandName } from "../invocation.ts";
import { clusterOptions, waitOptions, type CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "scale <set> [count]",
  summary: "change the number of sub-agents",
  description:
    "Changes how many sub-agents a set has. The main agent is not counted: scale demo 0 leaves it alone.",
  options: {
    "--replicas <number>": "the same as COUNT (default: COUNT)",
    ...waitOptions("10m"),
    ...clusterOptions,
  },
  examples: ["cocoonctl scale demo 3", "cocoonctl scale demo --replicas=0"],
  run: scale,
};

interface ScaleOptions extends ClusterOptions, WaitOptions {
  readonly replicas?: string;
}

const mostReplicas = 2 ** 31 - 1;

export function readReplicas(text: string | undefined, where: string): number {
  if (text === undefined)
    throw new Fault(
      "badRequest",
      `how many? write: ${commandName()} scale SET 3 (sub-agents beside the main agent)`,
    );
  const replicas = /^\d{1,10}$/.test(text) ? Number(text) : Number.NaN;
  if (replicas <= mostReplicas) return replicas;
  throw new Fault("badRequest", `${where} ${text}: write a whole number from 0 up`);
}

async function scale(name: string, count: string | undefined, options: ScaleOptions): Promise<void> {
  const wait = createWaiter(options);
  const replicas = readReplicas(
    count ?? options.replicas,
    count === undefined ? "--replicas" : "the number of sub-agents",
  );
  await using session = await openSession(options);
  const { client, namespace, signal } = session;
  const before = (await findSet(session, name)).spec?.agent.replicas ?? 0;
  const key = { namespace, name };
  await client.patch(
    cocoonSets,
    { key, patch: { type: "merge", body: { spec: { replicas } } } },
    { signal, subresource: "scale" },
  );
  const written = await client.get(cocoonSets, key, { signal });
  process.stdout.write(`${name}: ${before} -> ${replicas} sub-agents\n`);
  await wait([awaitSet(session, written, (set, at) => lookScaled(set, { ...at, replicas }))], session);
}
