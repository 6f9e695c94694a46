/**
 * ConfigMap `cocoon-vm-snapshots`: how clients of the older API learn that a machine sleeps. Key is the machine's name, value the
 * full reference of its snapshot; the entry goes when the wake starts. It proves nothing to us: the registry does.
 */
import { hibernateTag } from "../tags.ts";

export const snapshotConfigMapName = "cocoon-vm-snapshots";

/** `registry.example:5000/base/vk-lab-atlas-0:hibernate`; the base may be given as address or host with path. */
export function snapshotReference(registryBase: string, vmName: string, tag: string = hibernateTag): string {
  const base = registryBase.replace(/^https?:\/\//, "").replace(/\/+$/, "");
  return `${base}/${vmName}:${tag}`;
}

export function readSnapshotReferences(
  configMap: { readonly data?: Readonly<Record<string, string>> | undefined } | undefined,
): ReadonlyMap<string, string> {
  return new Map(Object.entries(configMap?.data ?? {}).filter(([, reference]) => reference !== ""));
}
