/**
 * A real etcd and kube-apiserver for tests. The test runner starts one and names its directory in
 * COCOON_TEST_CLUSTER; a test file that is run alone starts its own. Tests that break the control plane take
 * `ownControlPlane`. Components end with the process that started them, however it ends.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { cp, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  clusterLayout,
  defaultCacheRoot,
  findRunning,
  logPath,
  prepareControlPlane,
  readClusterState,
  reservePort,
  resolveBinaries,
  startComponents,
  stopComponents,
  type Binaries,
  type ClusterLayout,
  type ControlPlaneSettings,
  type ProgramGroup,
} from "@cocoon/controlplane";
import { signalProcess } from "@cocoon/core";
import { eventually } from "./eventually.ts";
import { runCommand, type CommandOptions, type CommandResult } from "./run-command.ts";

export interface TestCluster {
  readonly layout: ClusterLayout;
  readonly binaries: Binaries;
  readonly server: string;
  readonly kubeconfigPath: string;
  readonly kubeconfig: string;
  /** Runs kubectl against this cluster. */
  kubectl(args: readonly string[], options?: CommandOptions): Promise<CommandResult>;
  /** A namespace of the test's own, with its default service account; deleted (not awaited) on dispose. */
  newNamespace(): Promise<TestNamespace>;
}

export interface TestNamespace extends AsyncDisposable {
  readonly name: string;
}

export type ComponentName = "etcd" | "kube-apiserver" | "kube-controller-manager" | "kube-scheduler";

export interface OwnControlPlane extends TestCluster, AsyncDisposable {
  readonly etcdUrl: string;
  /** Stops it and waits for its end; SIGKILL when `hard`. */
  stop(component: ComponentName, options?: { readonly hard?: boolean }): Promise<void>;
  /** Starts what is not running and waits until all is ready. */
  start(): Promise<void>;
  /** SIGSTOP and SIGCONT. */
  pause(component: ComponentName): Promise<void>;
  resume(component: ComponentName): Promise<void>;
  logs(component: ComponentName): Promise<string>;
  /** Copies the data of etcd, which is stopped meanwhile; returns the directory, which ends with the control plane. */
  backUpEtcd(): Promise<string>;
  /** Replaces the data of etcd by an older copy, or by nothing, as after the loss of a disk. */
  restoreEtcd(backup: string | undefined): Promise<void>;
}

/** With the programs of these groups, which only some tests need. */
export async function testBinaries(groups: readonly ProgramGroup[] = []): Promise<Binaries> {
  return resolveBinaries({
    groups,
    cacheRoot: defaultCacheRoot(process.env),
    env: process.env,
    signal: AbortSignal.timeout(60 * 60_000),
    onProgress: (program, text) => console.log(`# ${program}: ${text}`),
  });
}

let shared: Promise<TestCluster> | undefined;

/** The control plane of this run. Never stop or break it: other test files use it at the same time. */
export function sharedControlPlane(): Promise<TestCluster> {
  const directory = process.env["COCOON_TEST_CLUSTER"];
  shared ??= directory ? openCluster(directory) : ownControlPlane();
  return shared;
}

async function openCluster(directory: string): Promise<TestCluster> {
  const layout = clusterLayout(directory);
  const state = await readClusterState(layout);
  assert.ok(state, `COCOON_TEST_CLUSTER=${directory} holds no cluster`);
  return describeCluster(layout, await testBinaries(), `https://127.0.0.1:${state.ports.apiserver}`);
}

async function describeCluster(
  layout: ClusterLayout,
  binaries: Binaries,
  server: string,
): Promise<TestCluster> {
  const kubectl = (args: readonly string[], options: CommandOptions = {}) =>
    runCommand(binaries.kubectl, args, {
      ...options,
      env: { KUBECONFIG: layout.kubeconfig, ...options.env },
    });
  return {
    layout,
    binaries,
    server,
    kubeconfigPath: layout.kubeconfig,
    kubeconfig: await readFile(layout.kubeconfig, "utf8"),
    kubectl,
    newNamespace: () => newNamespace(kubectl),
  };
}

async function newNamespace(kubectl: TestCluster["kubectl"]): Promise<TestNamespace> {
  const name = `test-${randomBytes(5).toString("hex")}`;
  const made = await kubectl(["create", "namespace", name]);
  assert.equal(made.code, 0, made.stderr);
  await eventually(
    async () => {
      const account = await kubectl(["get", "serviceaccount", "default", "-n", name]);
      assert.equal(account.code, 0, account.stderr);
      // Made by another controller; a test that lists ConfigMaps twice must find it both times.
      const authority = await kubectl(["get", "configmap", "kube-root-ca.crt", "-n", name]);
      assert.equal(authority.code, 0, authority.stderr);
    },
    { timeoutMs: 60_000 },
  );
  return {
    name,
    [Symbol.asyncDispose]: async () => {
      await kubectl(["delete", "namespace", name, "--wait=false", "--ignore-not-found"]);
    },
  };
}

/** A control plane that the test may break. */
export async function ownControlPlane(
  settings: Partial<ControlPlaneSettings> = {},
): Promise<OwnControlPlane> {
  const directory = mkdtempSync(join(tmpdir(), "cocoon-cluster-"));
  const remove = () => rmSync(directory, { recursive: true, force: true, maxRetries: 3 });
  process.once("exit", remove);
  const binaries = await testBinaries();
  const prepared = await prepareControlPlane({
    directory,
    binaries,
    settings: { durable: false, ...settings },
  });
  const { components, layout, ports, server } = prepared;
  const start = () =>
    startComponents(components, { directory, signal: AbortSignal.timeout(120_000), lifetime: "with-us" });
  const signalTo = async (name: ComponentName, signal: NodeJS.Signals) => {
    const identity = await findRunning(directory, name);
    if (identity) signalProcess(identity, signal);
  };
  const stop = async (name: ComponentName, { hard = false } = {}) => {
    if (hard) await signalTo(name, "SIGKILL");
    await stopComponents(
      components.filter((each) => each.name === name),
      { directory, onlyListed: true },
    );
  };
  await start();
  return {
    ...(await describeCluster(layout, binaries, server)),
    etcdUrl: `https://127.0.0.1:${ports.etcd}`,
    start,
    stop,
    backUpEtcd: async () => {
      const backup = await mkdtemp(join(directory, "etcd-backup-"));
      await stop("etcd");
      await cp(layout.etcd, backup, { recursive: true });
      await start();
      return backup;
    },
    restoreEtcd: async (backup) => {
      await stop("kube-apiserver");
      await stop("etcd");
      await rm(layout.etcd, { recursive: true });
      if (backup !== undefined) await cp(backup, layout.etcd, { recursive: true });
      await start();
    },
    pause: (name) => signalTo(name, "SIGSTOP"),
    resume: (name) => signalTo(name, "SIGCONT"),
    logs: (name) => readFile(logPath(directory, name), "utf8"),
    [Symbol.asyncDispose]: async () => {
      await stopComponents(
        components.map((each) => ({ ...each, stopGraceMs: 3_000 })),
        { directory },
      );
      await prepared[Symbol.asyncDispose]();
      process.removeListener("exit", remove);
      remove();
    },
  };
}

/** A port for a program that takes its port as a number; reserved while this process lives. */
export async function freePort(): Promise<number> {
  const { port } = await reservePort();
  return port;
}
