/** vk-cocoon as a process of its own on a host of its own: real VMs, started from its environment alone. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { mkdir, readdir, readFile, readlink, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { issueCertificate } from "@cocoon/controlplane";
import { eventually, temporaryDirectory, type TestCluster } from "@cocoon/testkit";
import { openImageLibrary } from "@cocoon/images";
import { openQemuRuntime, openUserNetwork } from "@cocoon/qemu";
import type { VmRuntime } from "@cocoon/vm";
import { imageDirectory, qemuProcessesIn } from "../vm/qemu-harness.ts";

export interface VkHost extends AsyncDisposable {
  readonly name: string;
  /** Starts the process and waits until the node is ready. */
  start(): Promise<void>;
  /** Names the step before which it kills itself, and waits for that. */
  killBefore(step: string, work: () => Promise<void>): Promise<void>;
  kill(): Promise<void>;
  /** QEMU processes of this host, by VM. */
  guests(): Promise<readonly string[]>;
  guestPids(): Promise<readonly number[]>;
  log(): Promise<string>;
}

export interface VkHostOptions {
  readonly cluster: TestCluster;
  readonly registryUrl: string;
  readonly token: string;
  readonly env?: Readonly<Record<string, string>>;
}

export async function openVkHost(options: VkHostOptions): Promise<VkHost> {
  const { cluster } = options;
  const stack = new AsyncDisposableStack();
  const directory = stack.use(await temporaryDirectory());
  const name = `host-${randomBytes(4).toString("hex")}`;
  const at = (file: string) => join(directory.path, file);
  const root = at("root");
  await mkdir(root);
  // Images are built once for all tests.
  await symlink(imageDirectory(), join(root, "images"));
  await writeServingPair(cluster, { name, certificate: at("tls.crt"), key: at("tls.key") });
  await writeFile(at("kill-before"), "");
  const env = {
    ...process.env,
    KUBECONFIG: cluster.kubeconfigPath,
    VK_NODE_NAME: name,
    VK_NODE_IP: "127.0.0.1",
    VK_NODE_CPU: "64",
    VK_NODE_MEM: "64Gi",
    VK_NODE_STORAGE: "100Gi",
    VK_KUBELET_HOST: "127.0.0.1",
    VK_KUBELET_PORT: "0",
    VK_METRICS_ADDR: "127.0.0.1:0",
    VK_TLS_CERT: at("tls.crt"),
    VK_TLS_KEY: at("tls.key"),
    VK_RUNTIME: "qemu",
    VK_NETWORK: "user",
    COCOON_ROOT_DIR: root,
    COCOON_CGROUP_PARENT: "",
    OCI_REGISTRY: options.registryUrl,
    EPOCH_TOKEN: options.token,
    ...options.env,
  };
  let child: ChildProcess | undefined;
  const gone = async () => {
    if (child && child.exitCode === null && child.signalCode === null) await once(child, "exit");
    child = undefined;
  };
  const kill = async () => {
    child?.kill("SIGKILL");
    await gone();
  };
  stack.defer(() => removeVms(root));
  stack.defer(kill);
  stack.defer(async () => void (await cluster.kubectl(["delete", "node", name, "--wait=false"])));
  return {
    name,
    start: async () => {
      await writeFile(at("kill-before"), "");
      const log = openSync(at("log"), "a");
      const begun = (await readFile(at("log"), "utf8")).length;
      const worker = join(import.meta.dirname, "vk-worker.ts");
      child = spawn(process.execPath, [worker, at("kill-before")], { env, stdio: ["pipe", log, log] });
      closeSync(log);
      await eventually(
        async () => {
          const text = (await readFile(at("log"), "utf8")).slice(begun);
          assert.equal(child?.exitCode ?? null, null, text);
          assert.match(text, /node registered/);
        },
        { timeoutMs: 120_000, intervalMs: 100 },
      );
    },
    killBefore: async (step, work) => {
      await writeFile(at("kill-before"), step);
      await work();
      await eventually(() => assert.equal(child?.signalCode ?? null, "SIGKILL", `before ${step}`), {
        timeoutMs: 240_000,
        intervalMs: 100,
      });
      child = undefined;
      await writeFile(at("kill-before"), "");
    },
    kill,
    guests: () => qemuProcessesIn(root),
    guestPids: () => pidsBelow(root),
    log: () => readFile(at("log"), "utf8"),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Processes that work below a directory: a VM's process does, and nothing else. */
async function pidsBelow(directory: string): Promise<readonly number[]> {
  const found = await Promise.all(
    (await readdir("/proc"))
      .filter((name) => /^\d+$/.test(name))
      .map(async (pid) => {
        const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => "");
        return cwd.startsWith(directory) ? [Number(pid)] : [];
      }),
  );
  return found.flat().toSorted((left, right) => left - right);
}

async function writeServingPair(
  cluster: TestCluster,
  files: { readonly name: string; readonly certificate: string; readonly key: string },
): Promise<void> {
  const [certificate, key] = await Promise.all([
    readFile(`${cluster.layout.pki}/ca.crt`, "utf8"),
    readFile(`${cluster.layout.pki}/ca.key`, "utf8"),
  ]);
  const issued = await issueCertificate(
    { certificate, key },
    { commonName: files.name, usage: "server", hosts: ["127.0.0.1"] },
  );
  await writeFile(files.certificate, issued.certificate);
  await writeFile(files.key, issued.key, { mode: 0o600 });
}

/** VMs outlive the process; they must not outlive the test. */
async function removeVms(root: string): Promise<void> {
  const { signal } = new AbortController();
  const user = await openUserNetwork({ directory: join(root, "net", "user") });
  const runtime: VmRuntime = await openQemuRuntime({
    rootDirectory: root,
    images: openImageLibrary({ directory: imageDirectory() }),
    networks: new Map([["user", user]]),
    path: process.env["PATH"] ?? "",
    signal,
  });
  for (const vm of await runtime.list({ signal })) await runtime.remove(vm.id, { force: true, signal });
  await runtime[Symbol.asyncDispose]();
}
