/**
 * kubectl as the carrier of exec, attach, logs and port-forward: it speaks these streams with every API server, and keeps
 * the terminal as people expect it. They go through the API server, so the rights on pods/exec, pods/attach, pods/log
 * and pods/portforward are all that is needed: no way to the node, to the guest's network or to the registry.
 */
import { spawn, type ChildProcess, type SpawnOptions } from "node:child_process";
import { once } from "node:events";
import { Fault } from "@cocoon/core";
import type { ClusterTarget, Session } from "../cluster/session.ts";

export interface Kubectl {
  readonly command: string;
  /** What reaches the cluster and the namespace. */
  readonly args: readonly string[];
}

export async function kubectlFor({ target, namespace, signal }: Session): Promise<Kubectl> {
  return {
    command: await programOf(target, signal),
    args: [...clusterArguments(target), "--namespace", namespace],
  };
}

function clusterArguments({ kubeconfig, context }: ClusterTarget): string[] {
  return [...(kubeconfig ? ["--kubeconfig", kubeconfig] : []), ...(context ? ["--context", context] : [])];
}

/** The one that matches the platform of this machine; else the one on the path. */
async function programOf({ home }: ClusterTarget, signal: AbortSignal): Promise<string> {
  if (home === undefined) return "kubectl";
  const { defaultCacheRoot, resolveBinaries } = await import("@cocoon/controlplane");
  const { kubectl } = await resolveBinaries({
    cacheRoot: defaultCacheRoot(process.env),
    env: process.env,
    signal,
    installAllowed: false,
    onProgress: () => undefined,
  });
  return kubectl;
}

/** Starts it; "is not there" becomes a sentence. */
export async function startKubectl(
  kubectl: Kubectl,
  args: readonly string[],
  options: SpawnOptions,
): Promise<ChildProcess> {
  const child = spawn(kubectl.command, [...kubectl.args, ...args], options);
  try {
    await once(child, "spawn");
  } catch (error) {
    throw new Fault(
      "notFound",
      `${kubectl.command} cannot be started: exec, logs, console and ssh need kubectl on the PATH`,
      { cause: error },
    );
  }
  return child;
}

/** Waits for its end; a terminal's Ctrl-C is the child's business, not ours. */
export async function exitCodeOf(child: ChildProcess): Promise<number> {
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
