/** Machines made from what other machines left in the registry or on the host. */
import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { openSnapshotClient } from "@cocoon/oci";
import type { World } from "./test-vk.ts";

/** Annotations of a machine that is cloned: by name of the snapshot, or from a directory of the host. */
export function cloneMachine(
  vmName: string,
  from: { readonly image?: string; readonly directory?: string; readonly mode?: string },
): Record<string, string> {
  const { image, directory, mode } = from;
  return {
    "vm.cocoonstack.io/name": vmName,
    "cocoonset.cocoonstack.io/managed": "true",
    "cocoonset.cocoonstack.io/snapshot-policy": "never",
    ...(mode === undefined ? {} : { "cocoonset.cocoonstack.io/mode": mode }),
    ...(image === undefined ? {} : { "cocoonset.cocoonstack.io/image": image }),
    ...(directory === undefined ? {} : { "vm.cocoonstack.io/clone-from-dir": directory }),
  };
}

/** The files of a snapshot in the registry, as a person would put them on a host by hand. */
export async function snapshotDirectory(
  world: World,
  request: { readonly vmName: string; readonly below: string },
): Promise<string> {
  const { signal } = new AbortController();
  const directory = join(request.below, "snapshot");
  await mkdir(request.below, { recursive: true });
  await using client = await openSnapshotClient({});
  const repository = world.registry.repository(request.vmName);
  await client.pull({ repository, reference: "latest", directory, name: request.vmName, signal });
  return directory;
}

export async function deletePod(world: World, name: string): Promise<void> {
  const done = await world.cluster.kubectl([
    "delete",
    "pod",
    name,
    "-n",
    world.namespace.name,
    "--timeout=120s",
  ]);
  assert.equal(done.code, 0, done.stderr);
}
