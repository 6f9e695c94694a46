/** One Sandbox: observe, plan, apply, and report. */
import { type Sandbox } from "@cocoon/contract/agent-sandbox";
import { getErrorMessage, ignoreFault, isFault, jsonEqual, toFault, type Abortable } from "@cocoon/core";
import { getKey, type ObjectKey, type Pod } from "@cocoon/kube";
import {
  controllerReference,
  isControlledBy,
  referenceTo,
  requeue,
  settled,
  type Outcome,
  type ReconcileContext,
} from "@cocoon/kube/controller";
import { patchStatus, type CustomObject } from "../kinds.ts";
import { writing, type SandboxParts } from "./parts.ts";
import {
  isExpired,
  isMarkedExpired,
  planSandbox,
  type ObservedSandbox,
  type SandboxAction,
} from "./plan-sandbox.ts";
import { buildSandboxPod } from "./pod.ts";
import { computeSandboxStatus } from "./sandbox-status.ts";
import { buildService } from "./service.ts";
import { readSandboxObject, sandboxes } from "./settle.ts";

/** Timers of the queue are limited; later is looked at again. */
const longestWaitMs = 12 * 60 * 60_000;

export class SandboxReconciler {
  readonly #parts: SandboxParts;

  constructor(parts: SandboxParts) {
    this.#parts = parts;
  }

  async reconcile(key: ObjectKey, { signal, log }: ReconcileContext): Promise<Outcome> {
    const object = this.#parts.sandboxes.get(key);
    if (!object || object.metadata.deletionTimestamp) return settled;
    const sandbox = readSandboxObject(object);
    let error: unknown;
    try {
      for (const action of planSandbox(this.#observe(sandbox)))
        await this.#apply(sandbox, action, { signal });
    } catch (caught) {
      signal.throwIfAborted();
      error = caught;
    }
    const observed = this.#observe(sandbox);
    await this.#writeStatus(object, { ...observed, error }, { signal });
    if (isExpired(sandbox, observed.now) && !isMarkedExpired(sandbox))
      return requeue(1, "the expiry is reported; now it is applied");
    if (error === undefined) return this.#nextLook(sandbox);
    log.warn({ error: getErrorMessage(error) }, "Sandbox not reconciled");
    // An object that the API server calls invalid stays so until the Sandbox changes.
    if (isFault(error, "invalid")) return settled;
    throw toFault(error);
  }

  #observe(sandbox: Sandbox): ObservedSandbox {
    const { pods, podsByOwner, services, now } = this.#parts;
    const key = getKey(sandbox);
    const isOwned = (pod: Pod) => isControlledBy(pod, sandbox);
    const owned = pods.merge(podsByOwner.get(sandbox.metadata.uid ?? ""), isOwned);
    if (owned.length > 1)
      this.#parts.events.record(referenceTo(sandboxes, sandbox), {
        type: "Warning",
        reason: "MultiplePods",
        message: `${owned.length} pods are owned by this Sandbox`,
      });
    return { sandbox, named: pods.get(key), owned, service: services.get(key), now: now() };
  }

  #nextLook({ spec }: Sandbox): Outcome {
    if (spec.shutdownTime === undefined) return settled;
    const leftMs = Date.parse(spec.shutdownTime) - this.#parts.now().getTime();
    return leftMs <= 0 ? settled : requeue(Math.min(leftMs + 1, longestWaitMs), "the Sandbox expires then");
  }

  async #apply(sandbox: Sandbox, action: SandboxAction, options: Abortable): Promise<void> {
    const { pods, services, client, log } = this.#parts;
    const name = sandbox.metadata.name ?? "";
    switch (action.kind) {
      case "createPod":
        await pods.ensure(buildSandboxPod(sandbox), writing(options));
        log.info({ sandbox: name }, "pod of Sandbox created");
        return;
      case "deletePod":
        await pods.delete(action.pod, options);
        log.info({ sandbox: name }, "pod of Sandbox deleted");
        return;
      case "adoptPod":
        return this.#patchPod(
          action.pod,
          { ownerReferences: [controllerReference(sandboxes, sandbox)] },
          options,
        );
      case "patchPod":
        return this.#patchPod(action.pod, action.patch, options);
      case "createService":
        await services.ensure(buildService(sandbox), writing(options));
        return;
      case "deleteService":
        return services.delete(action.service, options);
      case "deleteSandbox": {
        // Read again: a cache may not show yet that the time was moved.
        const live = await ignoreFault("notFound", client.get(sandboxes, getKey(sandbox), options));
        if (!live || !isExpired(readSandboxObject(live), this.#parts.now())) return;
        const { uid = "", resourceVersion = "" } = live.metadata;
        if (uid !== sandbox.metadata.uid) return;
        await client.delete(sandboxes, getKey(sandbox), {
          ...options,
          preconditions: { uid, resourceVersion },
        });
      }
    }
  }

  async #patchPod(pod: Pod, metadata: object, { signal }: Abortable): Promise<void> {
    const { uid, resourceVersion } = pod.metadata;
    const adopts = "ownerReferences" in metadata ? { resourceVersion } : {};
    const patch = { type: "merge", body: { metadata: { uid, ...adopts, ...metadata } } } as const;
    await ignoreFault("notFound", this.#parts.pods.patch({ key: getKey(pod), patch }, { signal }));
  }

  async #writeStatus(
    object: CustomObject,
    observed: ObservedSandbox & { readonly error?: unknown },
    options: Abortable,
  ): Promise<void> {
    const { clusterDomain, sandboxes: writes } = this.#parts;
    const status = computeSandboxStatus({ ...observed, clusterDomain });
    if (jsonEqual(object.status ?? {}, status)) return;
    await ignoreFault("notFound", patchStatus(writes, { object, status }, options));
  }
}
