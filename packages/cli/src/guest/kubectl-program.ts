/**
 * kubectl as the carrier of exec, attach, logs and port-forward: it speaks these streams with every API server, and keeps
 * the terminal as people expect it. They go through the API server, so the rights on pods/exec, pods/attach, pods/log
 * and pods/portforward are all that is needed: no way to the node, to the guest's network or to the registry.
 */
import { spawn, type ChildProcess, type SpawnOptions } from "node:child_process";
import { once } from "node:events";
import { machineContainer } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import type { Pod } from "@cocoon/kube";
import { findMachine, getName } from "../cluster/find.ts";
import { openSession, type Session } from "../cluster/session.ts";
import { assertAwake } from "./assert-awake.ts";
import { ensureAwake, type WakeFlag } from "./ensure-awake.ts";

export interface Guest extends AsyncDisposable {
  readonly session: Session;
  readonly pod: Pod;
  readonly name: string;
  readonly container: string;
  /** Starts kubectl with the flags of cluster and namespace before these arguments. */
  readonly start: (args: readonly string[], options: SpawnOptions) => Promise<ChildProcess>;
}

/** A machine that is awake, or was woken for this, by its name or its set's, and a kubectl that reaches it. */
export async function openGuest(name: string, options: WakeFlag): Promise<Guest> {
  await using stack = new AsyncDisposableStack();
  const session = stack.use(await openSession(options));
  if (options.wake) await ensureAwake(session, name, options);
  const pod = await findMachine(session, name, { mainOfSet: true });
  assertAwake(pod);
  const command = await findProgram(session);
  const { kubeconfig, context } = session.target;
  const cluster = [
    ...(kubeconfig ? ["--kubeconfig", kubeconfig] : []),
    ...(context ? ["--context", context] : []),
    "--namespace",
    session.namespace,
  ];
  const kept = stack.move();
  return {
    session,
    pod,
    name: getName(pod),
    container: pod.spec?.containers[0]?.name ?? machineContainer,
    start: (args, spawning) => startProgram(command, [...cluster, ...args], spawning),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** The one that matches the platform of this machine; else the one on the path. */
async function findProgram({ target, signal }: Session): Promise<string> {
  if (target.home === undefined) return "kubectl";
  const { findKubectl } = await import("../platform.ts");
  return findKubectl(signal);
}

async function startProgram(
  command: string,
  args: readonly string[],
  options: SpawnOptions,
): Promise<ChildProcess> {
  const child = spawn(command, args, options);
  try {
    await once(child, "spawn");
  } catch (error) {
    throw new Fault(
      "notFound",
      `${command} cannot be started: exec, logs, console and ssh need kubectl on the PATH`,
      { cause: error },
    );
  }
  return child;
}

/** Waits for its end; a terminal's Ctrl-C is the child's business, not ours. */
export async function waitForExit(child: ChildProcess): Promise<number> {
  const ignore = () => undefined;
  process.on("SIGINT", ignore);
  try {
    if (child.exitCode !== null) return child.exitCode;
    const [code] = (await once(child, "close")) as [number | null];
    return code ?? 1;
  } finally {
    process.removeListener("SIGINT", ignore);
  }
}
