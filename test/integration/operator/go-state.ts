/**
 * Objects, annotations, registry contents and VMs as the Go stack leaves them: nothing that only ours writes is left on them.
 * And what the Go operator checks before it keeps a pod or calls a set suspended.
 */
import assert from "node:assert/strict";
import { annotation, hibernateTag, type CocoonSet } from "@cocoon/contract";
import { pods, type KubeConnection, type Pod } from "@cocoon/kube";
import type { Registry } from "@cocoon/oci";
import type { TestVk } from "../vk/test-vk.ts";
import { hibernations, sets } from "./world.ts";

const { signal } = new AbortController();

const podLabels = new Set([
  "cocoonset.cocoonstack.io/name",
  "cocoonset.cocoonstack.io/role",
  "cocoonset.cocoonstack.io/slot",
  "app.kubernetes.io/name",
  "app",
  "pod-template-hash",
]);

const podAnnotations = new Set([
  ...[
    "mode",
    "image",
    "os",
    "storage",
    "network",
    "snapshot-policy",
    "managed",
    "force-pull",
    "generation",
  ].map((name) => `cocoonset.cocoonstack.io/${name}`),
  ...["name", "id", "ip", "hibernate", "restore-from-hibernate", "fork-from", "conn-type", "backend"].map(
    (name) => `vm.cocoonstack.io/${name}`,
  ),
  ...["probe-port", "no-direct-io", "lifecycle-state", "lifecycle-observed-generation"].map(
    (name) => `vm.cocoonstack.io/${name}`,
  ),
]);

const agentFields = ["slot", "role", "podName", "vmName", "vmID", "ip", "phase", "forkedFrom"];
const toolboxFields = ["name", "podName", "vmName", "vmID", "ip", "phase", "connType", "vncPort"];
const statusFields =
  "observedGeneration phase readyAgents desiredAgents readyToolboxes desiredToolboxes".split(" ");
const manifestAnnotations = new Set(["org.opencontainers.image.created", "cocoonstack.snapshot.baseimage"]);

type Fields = Readonly<Record<string, unknown>>;

function pick(object: unknown, names: Iterable<string>): Fields {
  const kept = new Set(names);
  return Object.fromEntries(Object.entries(object as Fields).filter(([name]) => kept.has(name)));
}

/** Null for every key that is not kept, as a merge patch has it. */
function removeOthers(map: Readonly<Record<string, string>> = {}, kept: ReadonlySet<string>) {
  return Object.fromEntries(
    Object.keys(map)
      .filter((key) => !kept.has(key))
      .map((key) => [key, null]),
  );
}

export interface GoCluster {
  readonly connection: KubeConnection;
  readonly registry: Registry;
  readonly namespace: string;
}

/** Takes away what our operator and our kubelet added. Nothing of ours may run. */
export async function stripToGoState(
  { connection, registry, namespace }: GoCluster,
  node: TestVk,
): Promise<void> {
  for (const pod of (await connection.list(pods, { namespace, signal })).items) {
    const metadata = {
      annotations: removeOthers(pod.metadata.annotations, podAnnotations),
      labels: removeOthers(pod.metadata.labels, podLabels),
    };
    const key = { namespace, name: pod.metadata.name ?? "" };
    await connection.patch(pods, { key, patch: { type: "merge", body: { metadata } } }, { signal });
  }
  for (const set of (await connection.list(sets, { namespace, signal })).items)
    await stripSet(connection, set);
  for (const { metadata, status } of (await connection.list(hibernations, { namespace, signal })).items) {
    const value = {
      ...pick(status, ["observedGeneration", "phase", "vmName"]),
      conditions: status?.conditions?.filter(({ type }) => type === "Ready"),
    };
    await replaceStatus(connection, hibernations, { metadata, value });
  }
  for (const entry of node.host.vms.values())
    node.host.change(entry, { config: { ...entry.vm.config, labels: {} } });
  for await (const name of registry.repositories({ signal })) await stripRepository(registry, name);
}

async function stripSet(connection: KubeConnection, { metadata, status }: CocoonSet): Promise<void> {
  const agents = status?.agents?.map((each) => pick(each, agentFields));
  const toolboxes = status?.toolboxes?.map((each) => pick(each, toolboxFields));
  const conditions = status?.conditions?.filter(({ type }) => type === "Ready" || type === "Progressing");
  const value = {
    ...pick(status, statusFields),
    ...(agents ? { agents } : {}),
    ...(toolboxes ? { toolboxes } : {}),
    conditions,
  };
  await replaceStatus(connection, sets, { metadata, value });
  const { namespace, name = "" } = metadata;
  const body = { metadata: { annotations: removeOthers(metadata.annotations, new Set()) } };
  const key = { namespace, name };
  await connection.patch(sets, { key, patch: { type: "merge", body } }, { signal });
}

async function replaceStatus(
  connection: KubeConnection,
  type: typeof sets | typeof hibernations,
  { metadata, value }: { readonly metadata: CocoonSet["metadata"]; readonly value: object },
): Promise<void> {
  const { namespace, name = "" } = metadata;
  const patch = { type: "json", body: [{ op: "replace", path: "/status", value }] } as const;
  await connection.patch(
    type as typeof sets,
    { key: { namespace, name }, patch },
    { signal, subresource: "status" },
  );
}

/** Tag `hibernate` alone, on a manifest with the Go clients' annotations. */
async function stripRepository(registry: Registry, name: string): Promise<void> {
  const repository = registry.repository(name);
  for (const tag of await Array.fromAsync(repository.tags({ signal })))
    if (tag !== hibernateTag) await repository.deleteManifest(tag, { signal });
  const { bytes, mediaType } = await repository.getManifest(hibernateTag, { signal });
  const manifest = JSON.parse(bytes.toString("utf8")) as { annotations?: object };
  const annotations = pick(manifest.annotations ?? {}, manifestAnnotations);
  const stripped = Buffer.from(JSON.stringify({ ...manifest, annotations }));
  await repository.putManifest(hibernateTag, { bytes: stripped, mediaType }, { signal });
}

/** The Go operator deletes a pod whose VM spec in annotations, pool or resources are not those of the set. */
export function assertMatchesForGo(set: CocoonSet, pod: Pod): void {
  const { annotations = {}, labels = {} } = pod.metadata;
  const { agent, toolboxes = [], nodePool, snapshotPolicy } = set.spec;
  const role = labels["cocoonset.cocoonstack.io/role"];
  const slot = labels["cocoonset.cocoonstack.io/slot"];
  const spec = role === "toolbox" ? toolboxes.find(({ name }) => name === slot) : agent;
  assert.ok(spec, `${pod.metadata.name}: ${role} ${slot} is in the spec`);
  const { image, mode, os, backend, storage } = spec;
  const wanted = { image, mode, os, storage: storage === undefined ? undefined : String(storage) };
  for (const [name, value] of Object.entries(wanted))
    assert.equal(annotations[`cocoonset.cocoonstack.io/${name}`], value, `${pod.metadata.name} ${name}`);
  assert.equal(annotations["vm.cocoonstack.io/backend"], backend);
  assert.equal(annotations[annotation.snapshotPolicy], snapshotPolicy);
  assert.equal(annotations[annotation.managed], "true");
  assert.equal(pod.spec?.nodeSelector?.["cocoonstack.io/pool"], nodePool);
  const forkFrom = role === "sub-agent" ? `vk-${set.metadata.namespace}-${set.metadata.name}-0` : undefined;
  assert.equal(annotations[annotation.forkFrom], forkFrom);
}

/** Its gate before it calls a set suspended. */
export async function assertHibernatedForGo(cluster: GoCluster, set: CocoonSet, pod: Pod): Promise<void> {
  const { annotations = {} } = pod.metadata;
  assert.equal(annotations[annotation.hibernate], "true");
  assert.equal(annotations[annotation.lifecycleState], "hibernated");
  const reached = Number(annotations["vm.cocoonstack.io/lifecycle-observed-generation"]);
  assert.ok(reached >= (set.metadata.generation ?? 0), `${pod.metadata.name} reached ${reached}`);
  const repository = cluster.registry.repository(annotations[annotation.vmName] ?? "");
  const { bytes } = await repository.getManifest(hibernateTag, { signal });
  const { artifactType } = JSON.parse(bytes.toString("utf8")) as { artifactType: string };
  assert.match(artifactType, /snapshot.*v2|v2.*snapshot|snapshot\.v1/);
}
