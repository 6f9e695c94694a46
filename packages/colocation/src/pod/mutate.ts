/** `/mutate-pod`: profiles, then the extended-resource annotation, the nodes of a quota tree, devices. */
import type { PriorityClass } from "@cocoon/kube";
import { isMachinePod } from "@cocoon/contract";
import { tryParseJson, type Logger } from "@cocoon/core";
import { matchesLabels } from "@cocoon/core/label-selector";
import { diffJson } from "@cocoon/core/json-patch";
import {
  allow,
  allowWithPatch,
  type AdmissionHandler,
  type AdmissionRequest,
  type Verdict,
} from "@cocoon/kube/admission";
import type { Gates } from "../gates.ts";
import { getReviewedObject, handleResource, type HandledResource } from "../handlers.ts";
import { child, copyJson, isRecord, own, sortedJson, type Json, type Texts } from "../json.ts";
import { drawnAnnotation } from "../keys.ts";
import { podSchema } from "../patch/schemas.ts";
import { defaultedPriorityClass } from "../priority.ts";
import {
  applyMetadata,
  applyProfile,
  describeProblem,
  isDrawn,
  namesLabels,
  type CompiledProfile,
} from "../profile-engine.ts";
import type { ClusterView } from "../view.ts";
import { expandDevices, translateResources, writeExtendedSpec } from "./container-resources.ts";
import { isStable, recordOriginal, restoreOriginal } from "./original-metadata.ts";
import { keepPlacement, readPlacement, addTreeAffinity } from "./placement.ts";
import { readPod, readPodHead, type PodHead } from "./read-pod.ts";

export interface PodMutatorOptions {
  readonly view: ClusterView;
  readonly gates: Gates;
  readonly random?: () => number;
  readonly log: Logger;
  readonly timed?: <T>(plugin: string, operation: string, work: () => T) => T;
}

const podKind: HandledResource = { resource: "pods", kind: "Pod" };

export function podMutator(options: PodMutatorOptions): AdmissionHandler {
  return handleResource(podKind, (request) => {
    if (request.operation === "CONNECT") return allow();
    const object = getReviewedObject(request, podKind);
    const reading = readPod(object);
    if (request.operation === "CREATE") return create(request, reading, options);
    if (request.operation === "UPDATE" && options.gates.ColocationProfileReapplyOnUpdate)
      return update(request, reading, options);
    return allow();
  });
}

async function create(
  request: AdmissionRequest,
  reading: PodHead,
  options: PodMutatorOptions,
): Promise<Verdict> {
  const { gates, view, timed = (_plugin, _operation, work) => work() } = options;
  const pod = copyJson(request.object) as Json;
  // A pod of a controller may carry no namespace yet: then the request's counts.
  const namespace = reading.namespace || request.namespace;
  const now = (): PodHead => ({ ...readPodHead(pod), namespace });
  const wasNoted = restoreOriginal(pod);
  const { profiles, warnings } = await matchingProfiles(now(), options);
  const classes = await listPriorityClasses(profiles, view);
  const { operation } = request;
  if (profiles.length > 0) {
    const before = copyJson({ metadata: pod["metadata"] }) as Json;
    const placement = isMachine(now()) ? readPlacement(pod) : undefined;
    const apply = (object: Json) => {
      applyAll(object, profiles, { classes, options });
      if (placement) keepPlacement(object, placement);
    };
    timed("ClusterColocationProfile", operation, () => apply(pod));
    const matchingNow = await profilesFor(now(), view);
    if (wasNoted || !isStable(pod, { applied: profiles, matchingNow, repeat: apply }))
      recordOriginal(pod, before);
  }
  if (!gates.DisableExtendedResourceSpec)
    timed("ExtendedResourceSpec", operation, () => writeExtendedSpec(pod, readPod(pod)));
  if (gates.MultiQuotaTree) timed("MultiQuotaTree", operation, () => addTreeAffinity(pod, now(), view));
  if (!gates.DisableDeviceResourceSpec) timed("DeviceResourceSpec", operation, () => expandDevices(pod));
  return allowWithPatch(diffJson(request.object, pod), warnings.length > 0 ? { warnings } : {});
}

/** What runs already gets labels and annotations, nothing that would move or resize it. */
async function update(
  request: AdmissionRequest,
  reading: PodHead,
  options: PodMutatorOptions,
): Promise<Verdict> {
  const pod = copyJson(request.object) as Json;
  const { profiles } = await matchingProfiles(
    { ...reading, namespace: reading.namespace || request.namespace },
    options,
  );
  const drawn = readDraws(pod);
  for (const profile of profiles)
    if (profile.percent === 100 || drawn[profile.name] === true) applyMetadata(profile, pod);
  return allowWithPatch(diffJson(request.object, pod));
}

interface Matched {
  readonly profiles: readonly CompiledProfile[];
  readonly warnings: readonly string[];
}

/** Those that apply, and warnings about those that could select the pod but cannot be used. */
async function matchingProfiles(pod: PodHead, { view, log }: PodMutatorOptions): Promise<Matched> {
  const unusable = view
    .profiles()
    .filter(({ problem, selector }) => problem !== undefined && matchesLabels(selector, pod.labels));
  const concerned = await inNamespace(unusable, pod, view);
  for (const { name: profile, problem: error } of concerned)
    log.warn({ profile, error }, "profile with an unusable selector ignored");
  return { profiles: await profilesFor(pod, view), warnings: concerned.map(describeProblem) };
}

async function profilesFor(pod: PodHead, view: ClusterView): Promise<readonly CompiledProfile[]> {
  const ofMachine = isMachine(pod);
  const candidates = view
    .profiles()
    .filter(
      ({ problem, selector }) =>
        problem === undefined &&
        matchesLabels(selector, pod.labels) &&
        (!ofMachine || namesLabels(selector, pod.labels)),
    );
  return inNamespace(candidates, pod, view);
}

async function inNamespace(
  candidates: readonly CompiledProfile[],
  pod: PodHead,
  view: ClusterView,
): Promise<readonly CompiledProfile[]> {
  if (candidates.every(({ namespaceSelector }) => namespaceSelector.length === 0)) return candidates;
  const looked = view.namespaceLabels(pod.namespace);
  const labels: Texts = looked instanceof Promise ? await looked : looked;
  return candidates.filter((each) => matchesLabels(each.namespaceSelector, labels));
}

function isMachine({ tolerationKeys }: PodHead): boolean {
  return isMachinePod({ metadata: {}, spec: { tolerations: tolerationKeys.map((key) => ({ key })) } });
}

type Classes = ReadonlyMap<string, PriorityClass | undefined>;

/** Looked up before anything is changed, because a cache may have to ask. */
export async function listPriorityClasses(
  matched: readonly CompiledProfile[],
  view: ClusterView,
): Promise<Classes> {
  const found = new Map<string, PriorityClass | undefined>();
  for (const name of new Set(matched.flatMap(({ spec }) => spec.priorityClassName ?? []))) {
    const looked = view.priorityClass(name);
    found.set(name, looked instanceof Promise ? await looked : looked);
  }
  return found;
}

function applyAll(
  pod: Json,
  matched: readonly CompiledProfile[],
  { classes, options }: { readonly classes: Classes; readonly options: PodMutatorOptions },
): void {
  if (matched.length === 0) return;
  const { gates, random = Math.random } = options;
  const draws = readDraws(pod);
  for (const profile of matched) {
    const decided = draws[profile.name];
    const byChance = profile.percent !== undefined && profile.percent > 0 && profile.percent < 100;
    // What always applies needs no draw.
    const drawn = byChance && typeof decided === "boolean" ? decided : isDrawn(profile, random);
    if (byChance) recordDraw(pod, profile.name, drawn);
    if (!drawn) continue;
    applyProfile(profile, {
      object: pod,
      schema: podSchema,
      podSpec: child(pod, "spec"),
      priorityClass: (name) => classes.get(name),
    });
  }
  const skips = gates.ColocationProfileSkipMutatingResources || matched.some((each) => each.skipsResources);
  if (skips) return;
  const isBestEffort = () => readPod(pod).isBestEffort();
  translateResources(pod, defaultedPriorityClass({ ...readPodHead(pod), isBestEffort }));
}

function readDraws(pod: Json): Readonly<Record<string, unknown>> {
  const metadata = own(pod, "metadata");
  const annotations = isRecord(metadata) ? own(metadata, "annotations") : undefined;
  const text = isRecord(annotations) ? own(annotations, drawnAnnotation) : undefined;
  const value = typeof text === "string" ? tryParseJson(text) : undefined;
  return isRecord(value) ? value : {};
}

function recordDraw(pod: Json, profile: string, drawn: boolean): void {
  const text = sortedJson({ ...readDraws(pod), [profile]: drawn });
  child(child(pod, "metadata"), "annotations")[drawnAnnotation] = text;
}
