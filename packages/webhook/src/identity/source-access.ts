/** Whether a namespace may start machines from others: its own, and those that a CocoonSnapshotGrant opens to it. */
import {
  apiGroup,
  readSnapshotGrant,
  vmName as formatVmName,
  type CocoonSnapshotGrant,
} from "@cocoon/contract";
import { ignoreFault, isFault, type Abortable } from "@cocoon/core";
import { resourceType, type KubeClient, type KubeObject } from "@cocoon/kube";
import type { UserInfo } from "@cocoon/kube/admission";
import type { IdentityWriters } from "./identity-writers.ts";
import { findOwnerNamespaces, type OwnerContext } from "./machine-owners.ts";
import { isMachineName, type MachineSource } from "./machine-sources.ts";

interface SourceRequest {
  readonly namespace: string;
  readonly user: UserInfo;
  readonly sources: readonly MachineSource[];
}

interface SourceViolation {
  readonly field: string;
  readonly message: string;
}

/** Throws when the API server cannot be reached. */
export type SourceAccess = (
  request: SourceRequest,
  options: Abortable,
) => Promise<readonly SourceViolation[]>;

const grantType = resourceType<KubeObject>({ group: apiGroup, version: "v1", kind: "CocoonSnapshotGrant" });

/** Objects name a handful of machines; more than that are not looked at one by one. */
const maxSources = 64;

export function createSourceAccess(
  context: OwnerContext & { readonly client: KubeClient; readonly writers: IdentityWriters },
): SourceAccess {
  return async ({ namespace, user, sources }, { signal }) => {
    const violations: SourceViolation[] = [];
    for (const source of sources.slice(0, maxSources)) {
      const message = await findViolation(source, namespace, { ...context, signal });
      if (message !== undefined) violations.push({ field: source.field, message });
    }
    if (sources.length > maxSources)
      violations.push({ field: "spec", message: `more than ${maxSources} machines are named as sources` });
    if (violations.length === 0 || (await context.writers.includes(user, { signal }))) return [];
    return violations;
  };
}

interface Lookup extends OwnerContext, Abortable {
  readonly client: KubeClient;
}

async function findViolation(
  { field, text, vmName }: MachineSource,
  namespace: string,
  lookup: Lookup,
): Promise<string | undefined> {
  const what = `${field}: ${JSON.stringify(text.slice(0, 256))}`;
  if (!isMachineName(vmName)) return `${what} is not the name of a machine`;
  const owners = findOwnerNamespaces(vmName, lookup);
  if (owners.size === 0)
    return `${what} belongs to a namespace that does not exist; a cluster administrator may use it`;
  for (const owner of owners)
    if (owner !== namespace && !(await isGranted({ owner, namespace, vmName }, lookup)))
      return `${what} is a machine of namespace ${owner}, and no CocoonSnapshotGrant of namespace ${owner} opens it to namespace ${namespace}`;
  return undefined;
}

interface Use {
  readonly owner: string;
  readonly namespace: string;
  readonly vmName: string;
}

async function isGranted(use: Use, { client, signal }: Lookup): Promise<boolean> {
  try {
    for await (const page of client.pages(grantType, { namespace: use.owner, signal }))
      if (
        page.items.some((object) =>
          opens(
            ignoreFault("invalid", () => readSnapshotGrant(object)),
            use,
          ),
        )
      )
        return true;
    return false;
  } catch (error) {
    // The definition is not installed: there are no grants.
    if (isFault(error, "notFound")) return false;
    throw error;
  }
}

function opens(grant: CocoonSnapshotGrant | undefined, { owner, namespace, vmName }: Use): boolean {
  if (!grant?.spec.namespaces.includes(namespace)) return false;
  if (!grant.spec.sets) return true;
  return grant.spec.sets.some((set) => vmName.startsWith(formatVmName({ namespace: owner, set }, "")));
}
