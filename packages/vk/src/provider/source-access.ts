/**
 * Whether a machine may start from another machine: by its snapshot (`image`, `spec.agent.from`, toolboxes, bare pods) or by a
 * fork. Within a namespace always; across namespaces the source's namespace must grant it with a CocoonSnapshotGrant.
 */
import { apiGroup, grants, podVmName, readSnapshotGrant, vmName } from "@cocoon/contract";
import { Fault, isFault, type Abortable } from "@cocoon/core";
import { resourceType, type KubeClient, type KubeObject } from "@cocoon/kube";

const snapshotGrants = resourceType<KubeObject>({
  group: apiGroup,
  version: "v1",
  kind: "CocoonSnapshotGrant",
});

export interface SourceUse {
  /** Of the pod that starts. */
  readonly namespace: string;
  /** VM name of the source, which is also its repository. */
  readonly source: string;
  /** Namespace of the source, as its snapshot or VM says; "" when it does not. */
  readonly owner: string;
}

/** Names that the platform gives to machines; any other repository holds images for every tenant. */
const machineName = /^vk-/;

/** Throws `forbidden`, naming the grant that is missing. */
export async function assertSourceAllowed(
  client: KubeClient,
  use: SourceUse,
  options: Abortable,
): Promise<void> {
  const { namespace, source, owner } = use;
  if (!machineName.test(source)) return;
  const isOwn = owner === "" ? source.startsWith(podVmName(namespace, "")) : owner === namespace;
  if (isOwn || (await isGranted(client, use, options))) return;
  const from = owner === "" ? "another namespace" : `namespace ${owner}`;
  throw new Fault(
    "forbidden",
    `${source} is a machine of ${from}; to start from it, create a CocoonSnapshotGrant there that names namespace ${namespace}`,
  );
}

async function isGranted(
  client: KubeClient,
  { namespace, source, owner }: SourceUse,
  { signal }: Abortable,
): Promise<boolean> {
  const where = owner === "" ? {} : { namespace: owner };
  for await (const page of client.pages(snapshotGrants, { ...where, limit: 500, signal }))
    for (const object of page.items) if (allows(object, { namespace, source })) return true;
  return false;
}

/** A grant speaks for machines of its own namespace only. */
function allows(object: KubeObject, { namespace, source }: Pick<SourceUse, "namespace" | "source">): boolean {
  const grantor = object.metadata.namespace ?? "";
  if (!source.startsWith(podVmName(grantor, ""))) return false;
  try {
    const grant = readSnapshotGrant(object);
    const sets = grant.spec.sets ?? [""];
    return sets.some(
      (set) =>
        grants(grant, { namespace, set }) &&
        (set === "" || source.startsWith(vmName({ namespace: grantor, set }, ""))),
    );
  } catch (error) {
    if (isFault(error, "invalid")) return false;
    throw error;
  }
}
