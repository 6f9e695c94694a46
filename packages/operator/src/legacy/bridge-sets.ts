/**
 * A CocoonSet of the older API and the current one that is kept for it: the spec is copied down, the status up. The
 * current object belongs to the older one, so deleting that deletes both.
 */
import {
  readCocoonSet,
  readCocoonSetSpec,
  readVmRuntime,
  podName,
  withConditions,
  type CocoonSet,
} from "@cocoon/contract";
import {
  fromLegacyCocoonSet,
  readLegacyCocoonSet,
  snapshotReference,
  toLegacyCocoonSetStatus,
  type LegacyCocoonSet,
  type LegacyCocoonSetStatus,
  type SetConversion,
  type StaticAddress,
} from "@cocoon/contract/legacy";
import { applyMergePatch, isFault, jsonEqual, getErrorMessage, type Abortable } from "@cocoon/core";
import { getKey, type ObjectKey } from "@cocoon/kube";
import {
  controllerReference,
  isControlledBy,
  settled,
  type Outcome,
  type ReconcileContext,
} from "@cocoon/kube/controller";
import { legacySets, patchStatus, type CustomObject } from "../kinds.ts";
import type { BridgeParts } from "./start-bridge.ts";

export class SetBridge {
  readonly #parts: BridgeParts;

  constructor(parts: BridgeParts) {
    this.#parts = parts;
  }

  async reconcile(key: ObjectKey, { signal }: ReconcileContext): Promise<Outcome> {
    const object = this.#parts.legacySets.get(key);
    if (!object || object.metadata.deletionTimestamp !== undefined) return settled;
    let legacy: LegacyCocoonSet;
    try {
      legacy = readLegacyCocoonSet(object);
    } catch (error) {
      if (!isFault(error, "invalid")) throw error;
      await this.#writeStatus(object, this.#refusal(object, "Invalid", getErrorMessage(error)), { signal });
      return settled;
    }
    const conversion = fromLegacyCocoonSet(legacy, (toolbox) => this.#readAddress(key, toolbox));
    const current = await this.#ensureCurrent(object, conversion, { signal });
    const status = current
      ? this.#computeStatus(current)
      : this.#refusal(
          object,
          "NameConflict",
          `a CocoonSet ${key.name} of the current API exists and is not ours`,
        );
    await this.#writeStatus(object, status, { signal });
    return settled;
  }

  /** What the pod of a static toolbox carries, by older or current keys. */
  #readAddress({ namespace, name }: ObjectKey, toolbox: string): StaticAddress | undefined {
    const pod = this.#parts.pods.get({ namespace, name: podName(name, toolbox) });
    if (!pod) return undefined;
    const { ip, vmId } = readVmRuntime(pod.metadata.annotations);
    return { ...(ip === "" ? {} : { ip }), ...(vmId === "" ? {} : { vmId }) };
  }

  /** Undefined when the name belongs to another owner. */
  async #ensureCurrent(
    object: CustomObject,
    { set }: SetConversion,
    { signal }: Abortable,
  ): Promise<CustomObject | undefined> {
    const { sets } = this.#parts;
    const existing = sets.get(getKey(object));
    if (!existing) {
      const ownerReferences = [controllerReference(legacySets, object)];
      return sets.ensure({ ...set, metadata: { ...set.metadata, ownerReferences } }, { signal });
    }
    if (!isControlledBy(existing, object)) return undefined;
    const body = specPatch(existing.spec, set.spec);
    if (!body) return existing;
    const { uid } = existing.metadata;
    const patch = { type: "merge", body: { metadata: { uid }, spec: body } } as const;
    return sets.patch({ key: getKey(object), patch }, { signal });
  }

  #computeStatus(object: CustomObject): LegacyCocoonSetStatus {
    let current: CocoonSet;
    try {
      current = readCocoonSet(object);
    } catch (error) {
      return this.#refusal(object, "Invalid", getErrorMessage(error));
    }
    const asleep = new Set(
      (current.status?.agents ?? [])
        .filter(({ snapshotDigest, ready }) => snapshotDigest !== undefined && !ready)
        .map(({ vmName }) => vmName),
    );
    return toLegacyCocoonSetStatus(current.status ?? {}, (vmName) =>
      asleep.has(vmName) ? snapshotReference(this.#parts.registryAddress, vmName) : undefined,
    );
  }

  #refusal(object: CustomObject, reason: string, message: string): LegacyCocoonSetStatus {
    const report = {
      type: "Degraded",
      status: "True" as const,
      reason,
      message,
      observedGeneration: object.metadata.generation ?? 0,
    };
    return { phase: "Failed", conditions: withConditions([], [report], { now: this.#parts.now() }) };
  }

  async #writeStatus(object: CustomObject, status: LegacyCocoonSetStatus, options: Abortable): Promise<void> {
    const plain = JSON.parse(JSON.stringify(status)) as LegacyCocoonSetStatus;
    const before = (object.status ?? {}) as LegacyCocoonSetStatus;
    // An unchanged refusal keeps its time.
    if (!jsonEqual(withoutTimes(before), withoutTimes(plain)))
      await patchStatus(this.#parts.legacySets, { object, status: plain }, options);
  }
}

function withoutTimes(status: LegacyCocoonSetStatus): unknown {
  return { ...status, conditions: status.conditions?.map(({ lastTransitionTime: _at, ...rest }) => rest) };
}

const optionalInSpec = ["suspend", "nodeName", "toolboxes"] as const;
const optionalInAgent = ["storage", "network", "resources", "envFrom", "serviceAccountName"] as const;

/** What the older object says; what only the current API can say is left as people set it. */
function specPatch(current: unknown, wanted: SetConversion["set"]["spec"]): unknown {
  const body = {
    ...Object.fromEntries(optionalInSpec.map((name) => [name, null])),
    ...wanted,
    agent: { ...Object.fromEntries(optionalInAgent.map((name) => [name, null])), ...wanted.agent },
  };
  const next = applyMergePatch(current ?? {}, body);
  return jsonEqual(readCocoonSetSpec(next), readCocoonSetSpec(current)) ? undefined : body;
}
