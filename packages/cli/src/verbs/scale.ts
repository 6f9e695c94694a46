/** scale: how many sub-agents a set has beside its main agent. By the scale subresource, as kubectl does it. */
import { Fault } from "@cocoon/core";
import { findSet } from "../cluster/find.ts";
import { cocoonSets } from "../cluster/kinds.ts";
import { openSession, type ClusterOptions } from "../cluster/session.ts";
import { lookScaled } from "../cluster/set-progress.ts";
import { waiterOf, type WaitOptions } from "../cluster/wait.ts";
import { commandName } from "../invocation.ts";

export interface ScaleOptions extends ClusterOptions, WaitOptions {
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

export async function scale(name: string, count: string | undefined, options: ScaleOptions): Promise<void> {
  const wait = waiterOf(options);
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
  const generation = (await client.get(cocoonSets, key, { signal })).metadata.generation ?? 0;
  process.stdout.write(`${name}: ${before} -> ${replicas} sub-agents\n`);
  const look = async () =>
    lookScaled(await client.get(cocoonSets, key, { signal }), { generation, replicas });
  await wait([{ name, look }], session);
}
