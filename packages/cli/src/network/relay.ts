/**
 * Joins loopback listeners across network namespaces: the control plane listens on the host's loopback address, nodes on that of
 * their own namespace, and neither has a way to the other by IP.
 *
 * A socket stays in the namespace it was made in, in whatever process it is. So this process accepts the connections of listeners
 * that a worker made in its namespace, and each worker those of listeners that this process made on the host.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { Server } from "node:net";
import { Fault, type Abortable, type Logger } from "@cocoon/core";
import { forwardConnections, listenOn, type ListenAddress } from "./forward-connections.ts";
import type { RelayPlan, RelayRoute } from "./relay-plan.ts";
import { formatNetnsPath } from "./topology.ts";

/** To a worker: make a listener and send it back, or accept the connections of the one that comes along. */
export type WorkerRequest = { readonly listen: ListenAddress } | { readonly accept: ListenAddress };
/** From a worker: with the listener, or why there is none. */
export type WorkerAnswer = { readonly listening: ListenAddress } | { readonly failed: string };

export interface RelayOptions extends Abortable {
  /** Command line of a worker. */
  readonly worker: readonly [command: string, ...args: string[]];
  readonly log: Logger;
}

const hostLoopback = "127.0.0.1";
const answerDeadlineMs = 20_000;

/** Returns when the signal aborts; throws when a worker ends, for then a part of the platform is cut off. */
export async function runRelay(plan: RelayPlan, options: RelayOptions): Promise<void> {
  const { inward, outward } = plan;
  const names = new Set([...inward, ...outward].map(({ netns }) => netns));
  const workers = new Map([...names].map((netns) => [netns, startWorker(netns, options)] as const));
  const ended = [...workers].map(([netns, worker]) => waitEnd(netns, worker));
  try {
    await Promise.race([serve(plan, workers, options), ...ended]);
  } finally {
    for (const worker of workers.values()) worker.kill();
  }
}

type Workers = ReadonlyMap<string, ChildProcess>;

// oxlint-disable-next-line max-params -- what, with whom, until when
async function serve({ inward, outward }: RelayPlan, workers: Workers, options: RelayOptions): Promise<void> {
  const { signal, log } = options;
  for (const route of outward) await serveOutward(route, workers);
  // Last: a client that finds these listening may rely on all others.
  for (const route of inward) await serveInward(route, workers);
  log.info({ inward: inward.length, outward: outward.length }, "relaying");
  if (!signal.aborted) await once(signal, "abort");
}

async function serveOutward({ netns, host, port }: RelayRoute, workers: Workers): Promise<void> {
  const worker = getWorker(netns, workers);
  const answered = once(worker, "message", { signal: AbortSignal.timeout(answerDeadlineMs) });
  send(worker, { listen: { host, port } });
  const [answer, listener] = (await answered) as [WorkerAnswer, Server | undefined];
  if ("failed" in answer || !listener)
    throw new Fault("unavailable", `cannot listen in ${netns}: ${"failed" in answer ? answer.failed : ""}`);
  forwardConnections(listener, { host: hostLoopback, port });
}

async function serveInward({ netns, host, port }: RelayRoute, workers: Workers): Promise<void> {
  const listener = await listenOn({ host: hostLoopback, port });
  send(getWorker(netns, workers), { accept: { host, port } }, listener);
}

function send(worker: ChildProcess, request: WorkerRequest, listener?: Server): void {
  if (listener) worker.send(request, listener, () => listener.close());
  else worker.send(request);
}

function getWorker(netns: string, workers: Workers): ChildProcess {
  const worker = workers.get(netns);
  if (!worker) throw new Fault("internal", `no worker in ${netns}`);
  return worker;
}

function startWorker(netns: string, { worker }: RelayOptions): ChildProcess {
  // The mark of a component belongs to one process: a worker must not be taken for the relay.
  const { COCOON_COMPONENT: _mark, ...env } = process.env; // oxlint-disable-line node/no-process-env -- children inherit ours
  return spawn("nsenter", [`--net=${formatNetnsPath(netns)}`, ...worker], {
    env,
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
}

async function waitEnd(netns: string, worker: ChildProcess): Promise<never> {
  const [code, signal] = (await once(worker, "exit")) as [number | null, string | null];
  throw new Fault("unavailable", `the relay's worker in ${netns} ended (${signal ?? code})`);
}
