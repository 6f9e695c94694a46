/** Nodes with real guests, and a registry over TLS behind a link of known speed and delay. */
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { issueCertificate, createAuthority } from "@cocoon/controlplane";
import { anchorTag, hibernateTag } from "@cocoon/contract";
import type { Abortable } from "@cocoon/core";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import { MachineSnapshots } from "@cocoon/machine";
import {
  fixedCredential,
  openRegistry,
  openSnapshotClient,
  type Registry,
  type SnapshotClient,
  type SnapshotFormat,
} from "@cocoon/oci";
import { startSlowLink, type SlowLink } from "@cocoon/oci/testing";
import { openQemuRuntime, openUserNetwork } from "@cocoon/qemu";
import { startRegistry } from "@cocoon/registry";
import type { LiveFiles, VmRuntime } from "@cocoon/vm";
import { imageDirectory } from "../vm/measure.ts";

const mebibyte = 1024 * 1024;
const { signal } = new AbortController();
export const linkSpeed = { bytesPerSecond: 50e6, delayMs: 5 };
const repository = "vk-bench-sleeper";
/** As in vk-cocoon. */
const worthPushingAhead = 32 * mebibyte;

export interface Node extends AsyncDisposable {
  readonly root: string;
  readonly runtime: VmRuntime;
  readonly link: SlowLink;
  /** Sends what a running VM has (packed only), saves it, which leaves it paused, and pushes that. */
  sleep(vmId: string, options: SleepOptions): Promise<Slept>;
  /** The whole snapshot first, then a VM from it. */
  wakeWhole(name: string, digest: string, options: Abortable): Promise<string>;
  wakeLazily(name: string, digest: string, options: Abortable): Promise<string>;
}

export interface SleepOptions extends Abortable {
  readonly format: SnapshotFormat;
}

export interface Slept {
  readonly digest: string;
  readonly ms: number;
  readonly bytesSent: number;
  /** Of these, while the VM was paused. */
  readonly restBytes: number;
  /** Of the time: paused while it was saved, and while the rest was pushed. */
  readonly saveMs: number;
  readonly pushMs: number;
}

export interface Lab extends AsyncDisposable {
  /** With nothing on it. */
  newNode(): Promise<Node>;
}

interface Access {
  readonly url: string;
  readonly token: string;
  readonly ca: string;
  readonly caFile: string;
}

export async function openLab(directory: string): Promise<Lab> {
  const stack = new AsyncDisposableStack();
  await mkdir(directory, { recursive: true });
  const authority = await createAuthority("bench");
  const serving = await issueCertificate(authority, {
    commonName: "registry",
    usage: "server",
    hosts: ["127.0.0.1"],
  });
  const [caFile, certificateFile, keyFile] = ["ca", "registry", "key"].map((each) =>
    join(directory, `${each}.pem`),
  );
  await writeFile(caFile ?? "", authority.certificate);
  await writeFile(certificateFile ?? "", serving.certificate);
  await writeFile(keyFile ?? "", serving.key, { mode: 0o600 });
  const server = stack.use(
    await startRegistry({
      storage: { kind: "filesystem", root: join(directory, "registry") },
      tls: { certFile: certificateFile ?? "", keyFile: keyFile ?? "" },
    }),
  );
  const token = await server.createToken({ name: "bench", scopes: ["repository:**:pull,push,delete"] });
  const access = { url: server.url, token, ca: authority.certificate, caFile: caFile ?? "" };
  await openImageLibrary({ directory: imageDirectory() }).pull(demoImageName, { signal });
  return {
    newNode: async () => stack.use(await openNode(directory, access)),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

async function openNode(parent: string, { url, token, ca, caFile }: Access): Promise<Node> {
  const stack = new AsyncDisposableStack();
  const root = await mkdtemp(join(parent, "node-"));
  const link = stack.use(await startSlowLink(url, linkSpeed));
  const credentials = fixedCredential({ kind: "bearer", token });
  const registry = stack.use(openRegistry({ address: link.address, credentials, ca }));
  const store = { directory: join(root, "chunks"), limitBytes: 8192 * mebibyte };
  const client = stack.use(await openSnapshotClient({ store }));
  const runtime = stack.use(
    await openQemuRuntime({
      rootDirectory: root,
      images: openImageLibrary({ directory: imageDirectory() }),
      networks: new Map([
        ["user", await openUserNetwork({ directory: join(root, "network"), firstFreePort: 1024 })],
      ]),
      path: process.env["PATH"] ?? "",
      lazy: { registry: { address: link.address, token, dockerConfig: "/nonexistent", caFile }, store },
      signal,
    }),
  );
  stack.defer(async () => {
    for (const vm of await runtime.list({ signal })) await runtime.remove(vm.id, { force: true, signal });
  });
  const snapshots = new MachineSnapshots({ registry });
  const parts = { runtime, registry, client, root, snapshots };
  return {
    root,
    runtime,
    link,
    sleep: (vmId, options) => sleep(parts, vmId, options),
    wakeWhole: (name, digest, options) => wakeWhole(parts, { name, digest }, options),
    wakeLazily: async (name, digest, options) => {
      const remote = { repository, digest, snapshotId: "" };
      const vm = await runtime.cloneRemote?.({ name, remote }, options);
      if (!vm) throw new Error("this engine cannot wake lazily");
      return vm.id;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

interface Parts {
  readonly runtime: VmRuntime;
  readonly registry: Registry;
  readonly client: SnapshotClient;
  readonly root: string;
  readonly snapshots: MachineSnapshots;
}

/** As vk-cocoon does it. */
async function sleep(
  { runtime, client, snapshots }: Parts,
  vmId: string,
  { format, signal }: SleepOptions,
): Promise<Slept> {
  const began = performance.now();
  const push = (tag: string, { envelope, files }: LiveFiles) =>
    snapshots.push({
      client,
      source: { envelope, files },
      vmName: repository,
      tag,
      namespace: "bench",
      node: "bench",
      vmId,
      baseImage: "",
      restoredFrom: "",
      format,
      pinFor: repository,
      signal,
    });
  const ahead =
    format === "packed"
      ? await runtime.snapshots.withLiveFiles?.(vmId, (files) => push(anchorTag, files), {
          leastBytes: worthPushingAhead,
          signal,
        })
      : undefined;
  const { snapshot, pausedMs } = await runtime.snapshots.save(vmId, { resume: false, signal });
  const savedAt = performance.now();
  const tag = format === "packed" ? hibernateTag : "whole";
  const { digest, bytesSent } = await runtime.snapshots.withFiles(snapshot.id, (files) => push(tag, files), {
    signal,
  });
  const endedAt = performance.now();
  await runtime.snapshots.remove(snapshot.id, { signal });
  return {
    digest,
    ms: endedAt - began,
    bytesSent: bytesSent + (ahead?.bytesSent ?? 0),
    restBytes: bytesSent,
    saveMs: pausedMs,
    pushMs: endedAt - savedAt,
  };
}

async function wakeWhole(
  { runtime, registry, client, root }: Parts,
  { name, digest }: { readonly name: string; readonly digest: string },
  { signal }: Abortable,
): Promise<string> {
  const directory = join(root, `pull-${name}`);
  await client.pull({
    repository: registry.repository(repository),
    reference: digest,
    directory,
    name,
    signal,
  });
  const snapshot = await runtime.snapshots.importDirectory(directory, { name, consume: true, signal });
  return (await runtime.clone({ name, snapshot: snapshot.id }, { signal })).id;
}
