/**
 * One Sandbox: what is done next. Pure.
 *
 *   expired     not marked      nothing yet: the status says so first
 *               Delete          the Sandbox is deleted; the garbage collector takes the rest
 *               Retain          its pod and Service are deleted: the machine hibernates, because the Sandbox lives
 *   Suspended   owned pod       the pod is deleted, without options, as upstream does
 *   Running     no pod          created
 *               owned           metadata follows; the spec never does; nothing while it terminates
 *               unowned         adopted with one of the two labels, else an error
 */
import { sandboxHash, sandboxLabel, type Sandbox } from "@cocoon/contract/agent-sandbox";
import { Fault } from "@cocoon/core";
import { findCondition } from "@cocoon/core/conditions";
import type { Pod, Service } from "@cocoon/kube";
import { findController, isControlledBy } from "@cocoon/kube/controller";
import { podMetadataPatch } from "./pod.ts";

export interface ObservedSandbox {
  readonly sandbox: Sandbox;
  /** The pod with the Sandbox's name. */
  readonly named: Pod | undefined;
  readonly owned: readonly Pod[];
  readonly service: Service | undefined;
  readonly now: Date;
}

export type SandboxAction =
  | { readonly kind: "createPod" }
  | { readonly kind: "deletePod"; readonly pod: Pod }
  | { readonly kind: "adoptPod"; readonly pod: Pod }
  | { readonly kind: "patchPod"; readonly pod: Pod; readonly patch: object }
  | { readonly kind: "createService" }
  | { readonly kind: "deleteService"; readonly service: Service }
  | { readonly kind: "deleteSandbox" };

export function isExpired({ spec }: Sandbox, now: Date): boolean {
  return spec.shutdownTime !== undefined && now.getTime() >= Date.parse(spec.shutdownTime);
}

export function isMarkedExpired({ status }: Sandbox): boolean {
  return findCondition(status?.conditions, "Ready")?.reason === "SandboxExpired";
}

/** Throws what the Sandbox's condition then reports. */
export function planSandbox(observed: ObservedSandbox): readonly SandboxAction[] {
  const { sandbox, now } = observed;
  if (isExpired(sandbox, now)) return planExpired(observed);
  assertNoVolumes(sandbox);
  return [...planPod(observed), ...planService(observed)];
}

function planExpired(observed: ObservedSandbox): readonly SandboxAction[] {
  const { sandbox, owned } = observed;
  if (!isMarkedExpired(sandbox)) return [];
  if (sandbox.spec.shutdownPolicy === "Delete") return [{ kind: "deleteSandbox" }];
  return [
    ...owned.filter(isLiving).map((pod): SandboxAction => ({ kind: "deletePod", pod })),
    ...ownService(observed).map((service): SandboxAction => ({ kind: "deleteService", service })),
  ];
}

/** A pod with a volume that is never mounted would lose what is written to it. */
function assertNoVolumes({ spec, metadata }: Sandbox): void {
  if ((spec.volumeClaimTemplates ?? []).length === 0) return;
  throw new Fault(
    "invalid",
    `spec.volumeClaimTemplates: machines cannot mount volumes, and keep their whole disk instead; create ${metadata.name ?? "the Sandbox"} without them`,
  );
}

function planPod(observed: ObservedSandbox): readonly SandboxAction[] {
  const { sandbox, named, owned } = observed;
  const [pod] = owned;
  if (sandbox.spec.operatingMode === "Suspended")
    return owned.filter(isLiving).map((each) => ({ kind: "deletePod", pod: each }));
  if (owned.length > 1) return [];
  if (pod) {
    const patch = isLiving(pod) ? podMetadataPatch(sandbox, pod) : undefined;
    return patch ? [{ kind: "patchPod", pod, patch }] : [];
  }
  if (!named) return [{ kind: "createPod" }];
  if (findController(named)) throw new Fault("conflict", `pod ${sandbox.metadata.name} has another owner`);
  if (!isAdoptable(named, sandbox))
    throw new Fault("conflict", `pod ${sandbox.metadata.name} exists and is not ours`);
  return [{ kind: "adoptPod", pod: named }];
}

function planService(observed: ObservedSandbox): readonly SandboxAction[] {
  const { sandbox, service } = observed;
  const { service: wanted } = sandbox.spec;
  if (wanted === false) return ownService(observed).map((each) => ({ kind: "deleteService", service: each }));
  if (wanted !== true || ownService(observed).length > 0) return [];
  if (service) throw new Fault("conflict", `Service ${sandbox.metadata.name} exists and is not ours`);
  return [{ kind: "createService" }];
}

function ownService({ sandbox, service }: ObservedSandbox): readonly Service[] {
  return service && isControlledBy(service, sandbox) && !service.metadata.deletionTimestamp ? [service] : [];
}

export function isLiving({ metadata }: Pod): boolean {
  return metadata.deletionTimestamp === undefined;
}

function isAdoptable({ metadata }: Pod, sandbox: Sandbox): boolean {
  const { labels } = metadata;
  const hash = sandboxHash(sandbox.metadata.name ?? "");
  return labels?.[sandboxLabel.adoptable] === "true" || labels?.[sandboxLabel.nameHash] === hash;
}
