/**
 * PodSnapshots (podsnapshot.gke.io), as far as the Python SDK of agent-sandbox uses them. A trigger asks the kubelet, through an
 * annotation of the pod, for a snapshot of the running machine; when the kubelet reports its digest, the PodSnapshot is made.
 */
import {
  annotation,
  findSandboxOwner,
  podSnapshotFinalizer,
  podSnapshotTag,
  readText,
  withConditions,
  type ConditionReport,
} from "@cocoon/contract";
import {
  podSnapshotAnnotation,
  readPodSnapshot,
  readPodSnapshotTrigger,
  sandboxHash,
  sandboxLabel,
  type PodSnapshotTrigger,
} from "@cocoon/contract/agent-sandbox";
import { ignoreFault, jsonEqual, type Abortable, type Logger } from "@cocoon/core";
import { findCondition } from "@cocoon/core/conditions";
import { getKey, type KubeClient, type ObjectKey, type Pod } from "@cocoon/kube";
import {
  hasFinalizer,
  removeFinalizer,
  requeue,
  settled,
  type Outcome,
  type OwnWrites,
  type ReconcileContext,
} from "@cocoon/kube/controller";
import type { MachineSnapshots } from "@cocoon/machine";
import { patchStatus, type CustomObject } from "../kinds.ts";
import { podSnapshots } from "./kinds.ts";
import { sandboxes } from "./settle.ts";

export interface PodSnapshotParts {
  readonly client: KubeClient;
  readonly triggers: OwnWrites<CustomObject>;
  readonly podSnapshots: OwnWrites<CustomObject>;
  readonly pods: OwnWrites<Pod>;
  readonly snapshots: Pick<MachineSnapshots, "remove">;
  readonly log: Logger;
  readonly now: () => Date;
}

const busyMs = 500;

export class TriggerReconciler {
  readonly #parts: PodSnapshotParts;

  constructor(parts: PodSnapshotParts) {
    this.#parts = parts;
  }

  async reconcile(key: ObjectKey, { signal }: ReconcileContext): Promise<Outcome> {
    const object = this.#parts.triggers.get(key);
    if (!object || object.metadata.deletionTimestamp) return settled;
    const trigger = readPodSnapshotTrigger(object);
    if (findCondition(trigger.status?.conditions, "Triggered")) return settled;
    const pod = this.#parts.pods.get({ namespace: key.namespace, name: trigger.spec.targetPod });
    const problem = findProblem(pod);
    if (problem !== undefined || !pod) {
      const report = { status: "False" as const, reason: "Failed", message: problem ?? "" };
      return this.#finish(object, trigger, { report, signal });
    }
    const name = nameSnapshot(trigger);
    const { annotations } = pod.metadata;
    const [taken = "", digest] = readText(annotations, annotation.snapshotTaken).split("@");
    if (taken === name && digest) {
      await this.#ensureSnapshot({ name, digest, pod }, { signal });
      const report = { status: "True" as const, reason: "Complete", message: `PodSnapshot ${name} is ready` };
      return this.#finish(object, trigger, { report, created: name, signal });
    }
    const pending = readText(annotations, annotation.snapshotRequest);
    if (pending !== "" && pending !== taken && pending !== name)
      return requeue(busyMs, "another snapshot is made");
    await this.#request(pod, name, { signal });
    return settled;
  }

  async #request(pod: Pod, name: string, { signal }: Abortable): Promise<void> {
    if (readText(pod.metadata.annotations, annotation.snapshotRequest) === name) return;
    const body = { metadata: { uid: pod.metadata.uid, annotations: { [annotation.snapshotRequest]: name } } };
    const patch = { type: "merge", body } as const;
    await ignoreFault("notFound", this.#parts.pods.patch({ key: getKey(pod), patch }, { signal }));
  }

  async #ensureSnapshot(
    { name, digest, pod }: { readonly name: string; readonly digest: string; readonly pod: Pod },
    { signal }: Abortable,
  ): Promise<void> {
    const { podSnapshots: writes, now } = this.#parts;
    const { namespace = "", name: podName = "", annotations } = pod.metadata;
    const owner = findSandboxOwner(pod);
    const made: CustomObject = {
      apiVersion: `${podSnapshots.group}/${podSnapshots.version}`,
      kind: podSnapshots.kind,
      metadata: {
        name,
        namespace,
        labels: { [sandboxLabel.nameHash]: sandboxHash(owner?.name ?? podName) },
        annotations: { [podSnapshotAnnotation.originPod]: podName },
        finalizers: [podSnapshotFinalizer],
        // Its snapshots end with the Sandbox. Not as its controller: it decides nothing about the Sandbox.
        ...(owner ? { ownerReferences: [buildReference(owner)] } : {}),
      },
      spec: { vmName: readText(annotations, annotation.vmName), tag: podSnapshotTag(name), digest },
    };
    const existing = writes.get({ namespace, name });
    const object = existing ?? (await this.#create(made, { signal }));
    const observedGeneration = object.metadata.generation ?? 0;
    const ready = { type: "Ready", status: "True", reason: "SnapshotReady", message: digest } as const;
    const before = readPodSnapshot(object).status?.conditions;
    const conditions = withConditions(before, [{ ...ready, observedGeneration }], { now: now() });
    if (!jsonEqual(before ?? [], conditions))
      await patchStatus(writes, { object, status: { conditions } }, { signal });
  }

  async #create(made: CustomObject, { signal }: Abortable): Promise<CustomObject> {
    const { podSnapshots: writes, client } = this.#parts;
    const created = await ignoreFault("alreadyExists", writes.ensure(made, { signal }));
    return created ?? client.get(podSnapshots, getKey(made), { signal });
  }

  async #finish(
    object: CustomObject,
    trigger: PodSnapshotTrigger,
    {
      report,
      created,
      signal,
    }: Abortable & {
      readonly report: Pick<ConditionReport, "status" | "reason" | "message">;
      readonly created?: string;
    },
  ): Promise<Outcome> {
    const observedGeneration = trigger.metadata.generation ?? 0;
    const conditions = withConditions([], [{ type: "Triggered", ...report, observedGeneration }], {
      now: this.#parts.now(),
    });
    const status = { conditions, ...(created ? { snapshotCreated: { name: created } } : {}) };
    await ignoreFault("notFound", patchStatus(this.#parts.triggers, { object, status }, { signal }));
    return settled;
  }
}

/** One for each trigger, also for one that was made again under the same name. */
function nameSnapshot({ metadata }: PodSnapshotTrigger): string {
  return `${(metadata.name ?? "").slice(0, 54)}-${sandboxHash(metadata.uid ?? "")}`;
}

function findProblem(pod: Pod | undefined): string | undefined {
  if (!pod) return "spec.targetPod: there is no such pod";
  if (pod.metadata.deletionTimestamp) return "spec.targetPod: the pod is terminating";
  if (readText(pod.metadata.annotations, annotation.vmName) === "")
    return "spec.targetPod: the pod is not a machine";
  return undefined;
}

function buildReference({ name, uid }: { readonly name: string; readonly uid: string }) {
  return { apiVersion: `${sandboxes.group}/${sandboxes.version}`, kind: sandboxes.kind, name, uid };
}

/** Removes the tag of a deleted PodSnapshot. */
export class PodSnapshotReconciler {
  readonly #parts: PodSnapshotParts;

  constructor(parts: PodSnapshotParts) {
    this.#parts = parts;
  }

  async reconcile(key: ObjectKey, { signal }: ReconcileContext): Promise<Outcome> {
    const { podSnapshots: writes, client, snapshots, log } = this.#parts;
    const object = writes.get(key);
    if (!object?.metadata.deletionTimestamp || !hasFinalizer(object, podSnapshotFinalizer)) return settled;
    const { vmName = "", tag = "" } = readPodSnapshot(object).spec;
    // Only tags of PodSnapshots, and of this namespace: the spec can be edited, and other tags hold machines.
    if (vmName !== "" && tag === podSnapshotTag(key.name))
      await ignoreFault(
        "forbidden",
        snapshots.remove(vmName, { tag, namespace: key.namespace ?? "" }, { signal }),
      );
    await removeFinalizer(
      { client, writes, type: podSnapshots, object, finalizer: podSnapshotFinalizer },
      { signal },
    );
    log.info({ snapshot: key.name }, "PodSnapshot removed");
    return settled;
  }
}
