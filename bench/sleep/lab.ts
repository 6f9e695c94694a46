/** Nodes with real guests, and a registry over TLS behind a link of known speed and delay. */
import { mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { issueCertificate, createAuthority } from "@cocoon/controlplane";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import {
  fixedCredential,
  openRegistry,
  openSnapshotClient,
  type PushReport,
  type Registry,
  type SnapshotClient,
  type SnapshotFormat,
} from "@cocoon/oci";
import { startSlowLink, type SlowLink } from "@cocoon/oci/testing";
import { openQemuRuntime, openUserNetwork } from "@cocoon/qemu";
import { startRegistry } from "@cocoon/registry";
import type { VmRuntime } from "@cocoon/vm";
import { imageDirectory } from "../vm/measure.ts";

const mebibyte = 1024 * 1024;
const { signal } = new AbortController();
export const linkSpeed = { bytesPerSecond: 50e6, delayMs: 5 };
const repository = "vk-bench-sleeper";

export interface Node extends AsyncDisposable {
  readonly runtime: VmRuntime;
  readonly link: SlowLink;
  /** Saves a VM, which stays paused, and pushes it. */
  sleep(vmId: string, format: SnapshotFormat): Promise<PushReport & { readonly ms: number }>;
  /** The whole snapshot first, then a VM from it. */
  wakeWhole(name: string, digest: string): Promise<string>;
  wakeLazily(name: string, digest: string): Promise<string>;
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
  const parts = { runtime, registry, client, root };
  return {
    runtime,
    link,
    sleep: (vmId, format) => sleep(parts, vmId, format),
    wakeWhole: (name, digest) => wakeWhole(parts, name, digest),
    wakeLazily: async (name, digest) => {
      const vm = await runtime.cloneRemote?.(
        { name, remote: { repository, digest, snapshotId: "" } },
        { signal },
      );
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
}

// oxlint-disable-next-line max-params -- a node, a VM and a form
async function sleep({ runtime, registry, client }: Parts, vmId: string, format: SnapshotFormat) {
  const began = performance.now();
  const { snapshot } = await runtime.snapshots.save(vmId, { resume: false, signal });
  const report = await runtime.snapshots.withFiles(
    snapshot.id,
    ({ envelope, files }) =>
      client.push({
        source: { envelope, files },
        repository: registry.repository(repository),
        tag: format === "packed" ? "hibernate" : "whole",
        format,
        signal,
      }),
    { signal },
  );
  const ms = performance.now() - began;
  await runtime.snapshots.remove(snapshot.id, { signal });
  return { ...report, ms };
}

// oxlint-disable-next-line max-params -- a node, a name and a snapshot
async function wakeWhole({ runtime, registry, client, root }: Parts, name: string, digest: string) {
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
