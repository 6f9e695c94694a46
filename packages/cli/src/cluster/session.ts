/**
 * The cluster that a command speaks to. `--kubeconfig` and `--context` name it. Without them `cocoonctl` means the
 * platform of this machine where `up` made one, and `kubectl cocoon` means what kubectl itself means; else the usual
 * rules hold (KUBECONFIG, ~/.kube/config, a pod's service account).
 */
import { existsSync } from "node:fs";
import { clusterLayout } from "@cocoon/controlplane/layout";
import { abortOnSignals, isFault } from "@cocoon/core";
import { openKubeClient, readKubeEnvironment, type KubeConnection } from "@cocoon/kube";
import { readExternalCluster, type ClusterChoice } from "../external-cluster.ts";
import { homeDirectory, type Environment, type HomeOptions } from "../home.ts";
import { isKubectlPlugin } from "../invocation.ts";
import { exitCode, Quit } from "../run-cli.ts";
import { ensureSupervisor } from "../supervision.ts";

export interface ClusterOptions extends HomeOptions, ClusterChoice {
  readonly namespace?: string;
  readonly allNamespaces?: boolean;
}

export interface ClusterTarget extends ClusterChoice {
  /** Directory of the platform of this machine, when that is the cluster. */
  readonly home?: string;
}

export interface Session extends AsyncDisposable {
  readonly client: KubeConnection;
  /** The one that is meant where none is named. */
  readonly namespace: string;
  readonly signal: AbortSignal;
  readonly target: ClusterTarget;
}

export async function openSession(options: ClusterOptions): Promise<Session> {
  const signal = abortOnSignals();
  const target = await chooseTarget(options, process.env);
  const { kubeconfig, context } = target;
  const client = await openKubeClient({ signal, kubeconfig, context });
  if (target.home !== undefined) {
    await ensureSupervisor(target.home);
    await assertUp(client, target.home, signal);
  }
  return {
    client,
    namespace: options.namespace ?? client.target.namespace ?? "default",
    signal,
    target,
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

/** The platform of this machine may be down: that has a fix, and an exit code of its own. */
async function assertUp(client: KubeConnection, home: string, signal: AbortSignal): Promise<void> {
  try {
    await client.raw({ method: "GET", path: "/version", signal, timeoutMs: 10_000 });
  } catch (error) {
    await client[Symbol.asyncDispose]();
    if (!isFault(error, "unavailable")) throw error;
    process.stderr.write(
      `The platform in ${home} is not running. Start it with: npm run up (or name another cluster with --kubeconfig)\n`,
    );
    throw new Quit(exitCode.notRunning);
  }
}

async function chooseTarget(options: ClusterOptions, env: Environment): Promise<ClusterTarget> {
  const { kubeconfig, context } = options;
  if (kubeconfig || context) return { kubeconfig, context };
  if (isKubectlPlugin() && hasOwnKubeconfig()) return {};
  return platformTarget(homeDirectory(options, env));
}

/** The platform that `up` made there. Only what says where it is gets read: its parts are of no interest here. */
async function platformTarget(home: string): Promise<ClusterTarget> {
  const external = await readExternalCluster(home);
  if (external) return { kubeconfig: external.kubeconfig, context: external.context, home };
  const { state, kubeconfig } = clusterLayout(home);
  return existsSync(state) ? { kubeconfig, home } : {};
}

function hasOwnKubeconfig(): boolean {
  const { kubeconfig, homeKubeconfig } = readKubeEnvironment();
  return kubeconfig !== undefined || existsSync(homeKubeconfig);
}
