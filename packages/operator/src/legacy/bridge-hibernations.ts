/**
 * A Hibernation of the older API and the CocoonHibernation that is kept for it, named after the pod. Of several for one
 * pod the oldest decides; the others say so. A sleep that only the older record proves is taken over once: its copy
 * gets the name that the current API looks for.
 */
import {
  annotation,
  legacyAnnotation,
  readCocoonHibernation,
  readText,
  type CocoonHibernation,
} from "@cocoon/contract";
import {
  fromLegacyHibernation,
  readLegacyHibernation,
  readSnapshotReferences,
  snapshotConfigMapName,
  snapshotReference,
  toLegacyHibernationStatus,
  type LegacyHibernation,
  type LegacyHibernationStatus,
} from "@cocoon/contract/legacy";
import { getErrorMessage, ignoreFault, isFault, jsonEqual, type Abortable } from "@cocoon/core";
import { configMaps, type ObjectKey } from "@cocoon/kube";
import {
  controllerReference,
  isControlledBy,
  settled,
  type Outcome,
  type ReconcileContext,
} from "@cocoon/kube/controller";
import { legacyHibernations, patchStatus, type CustomObject } from "../kinds.ts";
import type { BridgeParts } from "./start-bridge.ts";

export class HibernationBridge {
  readonly #parts: BridgeParts;

  constructor(parts: BridgeParts) {
    this.#parts = parts;
  }

  async reconcile(key: ObjectKey, { signal }: ReconcileContext): Promise<Outcome> {
    const object = this.#parts.legacyHibernations.get(key);
    if (!object || object.metadata.deletionTimestamp !== undefined) return settled;
    const status = await this.#bridge(object, { signal });
    if (status) await this.#writeStatus(object, status, { signal });
    return settled;
  }

  async #bridge(object: CustomObject, options: Abortable): Promise<LegacyHibernationStatus | undefined> {
    let legacy: LegacyHibernation;
    try {
      legacy = readLegacyHibernation(object);
    } catch (error) {
      if (isFault(error, "invalid")) return { phase: "Failed", message: getErrorMessage(error) };
      throw error;
    }
    const older = this.#olderThan(object, legacy);
    if (older)
      return {
        phase: "Pending",
        message: `Hibernation ${older} is older and decides for pod ${legacy.spec.podName}`,
      };
    const current = await this.#ensureCurrent(object, legacy, options);
    if (!current)
      return {
        phase: "Failed",
        message: `a CocoonHibernation ${legacy.spec.podName} of the current API exists and is not ours`,
      };
    return this.#computeStatus(current);
  }

  /** The object that came first, if it is another one. */
  #olderThan({ metadata }: CustomObject, { spec }: LegacyHibernation): string | undefined {
    const rivals = this.#parts.legacyHibernationsByPod
      .get(`${metadata.namespace ?? ""}/${spec.podName}`)
      .filter((each) => each.metadata.deletionTimestamp === undefined);
    const [first] = [...rivals].sort((left, right) => (ageKey(left) < ageKey(right) ? -1 : 1));
    return first && first.metadata.name !== metadata.name ? first.metadata.name : undefined;
  }

  async #ensureCurrent(
    object: CustomObject,
    legacy: LegacyHibernation,
    options: Abortable,
  ): Promise<CustomObject | undefined> {
    const { hibernations } = this.#parts;
    const wanted = fromLegacyHibernation(legacy);
    const key = { namespace: object.metadata.namespace, name: wanted.metadata.name };
    const existing = hibernations.get(key);
    if (!existing) {
      if (legacy.spec.action === "hibernate") await this.#takeOver(object, legacy, options);
      const ownerReferences = [controllerReference(legacyHibernations, object)];
      return hibernations.ensure({ ...wanted, metadata: { ...wanted.metadata, ownerReferences } }, options);
    }
    if (existing.metadata.deletionTimestamp !== undefined) return existing; // the next one comes when it is gone
    if (!isControlledBy(existing, object)) return undefined;
    const { desire } = (existing.spec ?? {}) as { desire?: unknown };
    if (desire === wanted.spec.desire) return existing;
    const { uid } = existing.metadata;
    const body = { metadata: { uid }, spec: { desire: wanted.spec.desire } };
    return hibernations.patch({ key, patch: { type: "merge", body } }, options);
  }

  /** The older record names a copy: from now on the registry says so itself. */
  async #takeOver(
    { metadata }: CustomObject,
    { spec }: LegacyHibernation,
    options: Abortable,
  ): Promise<void> {
    const { namespace } = metadata;
    const pod = this.#parts.pods.get({ namespace, name: spec.podName });
    const vmName = readText(pod?.metadata.annotations, annotation.vmName, legacyAnnotation.vmName);
    if (vmName === "") return;
    const key = { namespace, name: snapshotConfigMapName };
    const record = await ignoreFault("notFound", this.#parts.client.get(configMaps, key, options));
    const reference = record && readSnapshotReferences(record).get(vmName);
    const tag = /:([^:/]+)$/.exec(reference ?? "")?.[1];
    if (tag === undefined) return;
    const digest = await ignoreFault(
      "notFound",
      this.#parts.snapshots.adopt(vmName, { tag, namespace: namespace ?? "" }, options),
    );
    this.#parts.log.info({ vm: vmName, reference, digest }, "snapshot of the older API adopted");
  }

  #computeStatus(object: CustomObject): LegacyHibernationStatus {
    let current: CocoonHibernation;
    try {
      current = readCocoonHibernation(object);
    } catch (error) {
      return { phase: "Failed", message: getErrorMessage(error) };
    }
    const { phase, vmName, snapshotDigest } = current.status ?? {};
    const needed = vmName !== undefined && snapshotDigest !== undefined && phase !== "Active";
    const reference = needed ? snapshotReference(this.#parts.registryAddress, vmName) : undefined;
    return toLegacyHibernationStatus(current.status ?? {}, reference);
  }

  async #writeStatus(
    object: CustomObject,
    status: LegacyHibernationStatus,
    options: Abortable,
  ): Promise<void> {
    const before = (object.status ?? {}) as LegacyHibernationStatus;
    const { lastTransitionTime: since, ...rest } = before;
    if (status.lastTransitionTime === undefined && jsonEqual(rest, status)) return;
    const at = status.lastTransitionTime ?? (before.phase === status.phase ? since : undefined);
    const next = {
      ...status,
      lastTransitionTime:
        at ??
        this.#parts
          .now()
          .toISOString()
          .replace(/\.\d+Z$/, "Z"),
    };
    await patchStatus(this.#parts.legacyHibernations, { object, status: next }, options);
  }
}

/** The time of creation, then the name: the same order in every process. */
function ageKey({ metadata }: CustomObject): string {
  return `${metadata.creationTimestamp ?? ""} ${metadata.name ?? ""}`;
}
