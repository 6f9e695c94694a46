/**
 * Annotations of one pod, as far as the kubelet writes them. Patches only what differs; knows its own writes, so that
 * the next step sees them before any watch does. A pod that is gone from the API, or whose name another pod has by now, is
 * not an error: the registry and the runtime still hold the state, and no reader of the annotations is left.
 */
import {
  annotation,
  annotationPatch,
  clearedVmRuntime,
  legacyAnnotation,
  lifecyclePatch,
  mayReplace,
  readGeneration,
  readLifecycle,
  writeVmRuntime,
  type LifecycleState,
} from "@cocoon/contract";
import { isFault, sleep, type Abortable } from "@cocoon/core";
import { isReplaced, pods, type KubeClient } from "@cocoon/kube";
import type { Pod } from "@cocoon/kubelet";

type Wanted = Readonly<Record<string, string | null>>;

const attempts = 3;
const pauseMs = 500;
const patchTimeoutMs = 5_000;

export class PodWriter {
  readonly #client: KubeClient;
  #pod: Pod;

  constructor(client: KubeClient, pod: Pod) {
    this.#client = client;
    this.#pod = pod;
  }

  /** With everything that was written here. */
  get pod(): Pod {
    return this.#pod;
  }

  /** The pod has annotations of the older API, so it is shown to that API's readers as well. */
  get isLegacy(): boolean {
    const { annotations = {} } = this.#pod.metadata;
    return Object.values(legacyAnnotation).some((key) => annotations[key] !== undefined);
  }

  /** The annotations that say which VM it is and where; an address that is not known any more is removed. */
  vmTexts(vm: { readonly vmId: string; readonly ip: string }): Wanted {
    const legacyKeys = this.isLegacy;
    const older = legacyKeys ? { [legacyAnnotation.ip]: null } : {};
    return { [annotation.ip]: null, ...older, ...writeVmRuntime(vm, { legacyKeys }) };
  }

  async clearVm(options: Abortable): Promise<void> {
    const more = {
      [annotation.idleSince]: null,
      [annotation.restoredDigest]: null,
      [annotation.loading]: null,
    };
    await this.write({ ...clearedVmRuntime(), ...more }, options);
  }

  async recordDigest(digest: string | null, options: Abortable): Promise<void> {
    await this.write({ [annotation.snapshotDigest]: digest }, options);
  }

  /** All keys of the lifecycle and `more` in one patch. False: an older report, or a failure that sticks. */
  async announce(
    report: { readonly state: LifecycleState; readonly message?: string; readonly more?: Wanted },
    options: Abortable,
  ): Promise<boolean> {
    const texts = this.lifecycleTexts(report);
    await this.write({ ...texts, ...report.more }, options);
    return texts !== undefined;
  }

  /** All keys of the lifecycle; undefined for an older report, or where a failure sticks. */
  lifecycleTexts(report: { readonly state: LifecycleState; readonly message?: string }): Wanted | undefined {
    const { annotations } = this.#pod.metadata;
    const published = readLifecycle(annotations);
    const observedGeneration = Math.max(readGeneration(annotations), published.observedGeneration);
    const next = { state: report.state, observedGeneration, message: report.message ?? "" };
    return mayReplace(published, next) ? lifecyclePatch(next).metadata.annotations : undefined;
  }

  /** What of it is not written yet. */
  changesOf(wanted: Wanted): Wanted {
    return annotationPatch(this.#pod.metadata.annotations, wanted)?.metadata.annotations ?? {};
  }

  async write(wanted: Wanted, { signal }: Abortable): Promise<void> {
    const body = annotationPatch(this.#pod.metadata.annotations, wanted);
    if (!body) return;
    const { namespace, name = "", uid } = this.#pod.metadata;
    const guarded = { metadata: { ...body.metadata, uid } };
    let version: string | undefined;
    for (let attempt = 1; ; attempt += 1) {
      try {
        const answer = await this.#client.patch(
          pods,
          { key: { namespace, name }, patch: { type: "merge", body: guarded } },
          { signal, timeoutMs: patchTimeoutMs },
        );
        version = answer.metadata.resourceVersion;
        break;
      } catch (error) {
        if (isFault(error, "notFound") || isFault(error, "conflict") || isReplaced(error)) break;
        if (attempt >= attempts || signal.aborted) throw error;
        await sleep(pauseMs, { signal });
      }
    }
    this.took(body.metadata.annotations, version);
  }

  /** Only what we wrote: what others changed meanwhile comes by the watch, and is then seen as a change. */
  took(changes: Wanted, resourceVersion = this.#pod.metadata.resourceVersion): void {
    const annotations = merged(this.#pod.metadata.annotations ?? {}, changes);
    const version = resourceVersion === undefined ? {} : { resourceVersion };
    this.#pod = { ...this.#pod, metadata: { ...this.#pod.metadata, annotations, ...version } };
  }
}

function merged(current: Readonly<Record<string, string>>, changes: Wanted): Record<string, string> {
  const result: Record<string, string> = { ...current };
  for (const [key, value] of Object.entries(changes)) {
    if (value === null) delete result[key];
    else result[key] = value;
  }
  return result;
}
