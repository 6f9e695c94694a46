/** Mode `gate`: machines only as pods of a CocoonSet that exists, created by a listed user. */
import { apiGroup, legacyApiGroup, readVmSpec, vmName as formatVmName } from "@cocoon/contract";
import { getErrorMessage, type Abortable } from "@cocoon/core";
import type { OwnerReference } from "@cocoon/kube";
import type { AdmissionContext } from "@cocoon/kube/admission";
import type { IdentityWriters } from "../identity/identity-writers.ts";
import type { SetReference } from "../sets.ts";
import { numberedPrefix } from "../store/entry.ts";
import { collisionText, type NameKeepers } from "../store/collisions.ts";
import { allowed, denied, failed, type AdmissionResult } from "./admission-result.ts";
import type { MachinePod } from "./mutate.ts";

export interface SetPodOptions {
  readonly setExists: (set: SetReference, options: Abortable) => Promise<boolean>;
  readonly keepers: NameKeepers;
  readonly writers: Pick<IdentityWriters, "includes">;
}

export function decideGate(options: SetPodOptions & { readonly creators: readonly string[] }) {
  return (machine: MachinePod, context: AdmissionContext): AdmissionResult | Promise<AdmissionResult> => {
    const { username } = machine.request.userInfo;
    if (!findOwner(machine)) return denied("cocoon pods must be managed by a CocoonSet");
    if (!options.creators.includes(username))
      return denied(
        `cocoon pods must be created by the CocoonSet controller, got user ${JSON.stringify(username.slice(0, 256))}`,
      );
    return decideSetPod(options)(machine, context);
  };
}

/** A pod that names a CocoonSet as its owner: the set must exist, and the machine's name must be one of the set's. */
export function decideSetPod(options: SetPodOptions) {
  return async (machine: MachinePod, { signal }: AdmissionContext): Promise<AdmissionResult> => {
    const owner = findOwner(machine);
    if (!owner) return denied("cocoon pods must be managed by a CocoonSet");
    try {
      const refusal =
        (await findMissingOwner(machine, owner, { ...options, signal })) ??
        (await findForeignName(machine, owner, { ...options, signal }));
      if (refusal) return refusal;
    } catch (error) {
      signal.throwIfAborted();
      return failed("owner", `cocoon-webhook: cannot verify owner CocoonSet: ${getErrorMessage(error)}`, {
        code: 503,
        reason: "ServiceUnavailable",
      });
    }
    const holder = foreignHolder(machine, owner, options.keepers);
    return holder === undefined ? allowed() : denied(holder, { code: 409, reason: "Conflict" });
  };
}

/**
 * Sets of the older API are not looked up: their definition may not be installed, and an operator that creates such pods
 * knows its own sets.
 */
async function findMissingOwner(
  { request: { namespace } }: MachinePod,
  { apiVersion, name, uid }: OwnerReference,
  { setExists, signal }: SetPodOptions & Abortable,
): Promise<AdmissionResult | undefined> {
  const [group] = apiVersion.split("/");
  if (group === legacyApiGroup) return undefined;
  if (group !== apiGroup)
    return denied(
      `cocoon-webhook: owner CocoonSet "${name}" is of ${apiVersion || "no API group"}, not of ${apiGroup}`,
    );
  if (await setExists({ namespace, name, uid }, { signal })) return undefined;
  // The creator tries again: a set that was created a moment ago may not be visible here yet.
  return denied(
    `cocoon-webhook: owner CocoonSet ${namespace}/${name} with uid ${uid || '""'} does not exist yet, or not any more; retry`,
    { code: 409, reason: "Conflict" },
  );
}

/** Machines of older sets are `vk-<namespace>-<toolbox>`, without the set. */
async function findForeignName(
  { request, pod }: MachinePod,
  { apiVersion, name }: OwnerReference,
  { writers, signal }: SetPodOptions & Abortable,
): Promise<AdmissionResult | undefined> {
  const { namespace, userInfo } = request;
  const { vmName } = readVmSpec(pod.metadata.annotations);
  const isLegacy = apiVersion.startsWith(`${legacyApiGroup}/`);
  const prefix = isLegacy ? `vk-${namespace}-` : formatVmName({ namespace, set: name }, "");
  if (vmName === "" || vmName.startsWith(prefix)) return undefined;
  if (!isLegacy && (await writers.includes(userInfo, { signal }))) return undefined;
  return denied(
    `cocoon-webhook: "${vmName.slice(0, 128)}" is not a machine of CocoonSet ${namespace}/${name}: its machines are ${prefix}…`,
  );
}

function findOwner({ pod }: MachinePod): OwnerReference | undefined {
  return pod.metadata.ownerReferences?.find(({ kind, name }) => kind === "CocoonSet" && Boolean(name));
}

function foreignHolder(
  { request: { namespace }, pod }: MachinePod,
  owner: OwnerReference,
  { reserved, sets }: NameKeepers,
): string | undefined {
  const { vmName } = readVmSpec(pod.metadata.annotations);
  if (vmName === "") return undefined;
  const own = `CocoonSet ${namespace}/${owner.name}`;
  const prefix = numberedPrefix(vmName);
  const set = sets.findNameOwner(vmName) ?? (prefix === undefined ? undefined : sets.findPrefixOwner(prefix));
  if (set !== undefined && set !== own) return collisionText(vmName, set);
  for (const { entry } of reserved.holding(vmName))
    return collisionText(vmName, `${entry.owner.kind} ${entry.namespace}/${entry.owner.name}`);
  return undefined;
}
