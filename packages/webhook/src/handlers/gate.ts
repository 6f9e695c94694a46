/** Mode `gate`: machines only as pods of a CocoonSet that exists, made by whoever may make them. */
import { annotation, apiGroup, readText } from "@cocoon/contract";
import { messageOf, type Abortable } from "@cocoon/core";
import type { OwnerReference } from "@cocoon/kube";
import type { AdmissionContext } from "@cocoon/kube/admission";
import type { SetReference } from "../sets.ts";
import { numberedPrefix } from "../store/entry.ts";
import { collisionText, type NameKeepers } from "../store/collisions.ts";
import { allowed, denied, failed, type Judgement } from "./judgement.ts";
import type { MachinePod } from "./mutate.ts";

export interface SetPodOptions {
  readonly setExists: (set: SetReference, options: Abortable) => Promise<boolean>;
  readonly keepers: NameKeepers;
}

export interface GateOptions extends SetPodOptions {
  readonly creators: readonly string[];
}

export function judgeGate(options: GateOptions) {
  return (machine: MachinePod, context: AdmissionContext): Judgement | Promise<Judgement> => {
    const { username } = machine.request.userInfo;
    if (!ownerOf(machine)) return denied("cocoon pods must be managed by a CocoonSet");
    if (!options.creators.includes(username))
      return denied(
        `cocoon pods must be created by the CocoonSet controller, got user ${JSON.stringify(username.slice(0, 256))}`,
      );
    return judgeSetPod(options)(machine, context);
  };
}

/** A pod that says it belongs to a set: the set must be there, and the machine's name its own. */
export function judgeSetPod(options: SetPodOptions) {
  return async (machine: MachinePod, { signal }: AdmissionContext): Promise<Judgement> => {
    const { namespace } = machine.request;
    const owner = ownerOf(machine);
    if (!owner) return denied("cocoon pods must be managed by a CocoonSet");
    if (owner.apiVersion.split("/")[0] !== apiGroup)
      return denied(
        `cocoon-webhook: owner CocoonSet "${owner.name}" is of ${owner.apiVersion || "no API group"}, not of ${apiGroup}`,
      );
    try {
      const exists = await options.setExists({ namespace, name: owner.name, uid: owner.uid }, { signal });
      if (!exists)
        return denied(
          `cocoon-webhook: owner CocoonSet ${namespace}/${owner.name} with uid ${owner.uid || '""'} does not exist`,
        );
    } catch (error) {
      signal.throwIfAborted();
      return failed("owner", `cocoon-webhook: cannot verify owner CocoonSet: ${messageOf(error)}`);
    }
    const holder = foreignHolder(machine, owner, options.keepers);
    return holder === undefined ? allowed() : denied(holder, { code: 409, reason: "Conflict" });
  };
}

function ownerOf({ pod }: MachinePod): OwnerReference | undefined {
  return pod.metadata.ownerReferences?.find(({ kind, name }) => kind === "CocoonSet" && Boolean(name));
}

function foreignHolder(
  { request: { namespace }, pod }: MachinePod,
  owner: OwnerReference,
  { ledger, sets }: NameKeepers,
): string | undefined {
  const vmName = readText(pod.metadata.annotations, annotation.vmName);
  if (vmName === "") return undefined;
  const own = `CocoonSet ${namespace}/${owner.name}`;
  const prefix = numberedPrefix(vmName);
  const set = sets.ownerOfName(vmName) ?? (prefix === undefined ? undefined : sets.ownerOfPrefix(prefix));
  if (set !== undefined && set !== own) return collisionText(vmName, set);
  for (const { entry } of ledger.holding(vmName))
    return collisionText(vmName, `${entry.owner.kind} ${entry.namespace}/${entry.owner.name}`);
  return undefined;
}
