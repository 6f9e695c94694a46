/** ClusterColocationProfiles: which apply, in which order, and what each does to a pod or a Reservation. */
import type { PriorityClass } from "@cocoon/kube";
import { Fault, getErrorMessage } from "@cocoon/core";
import {
  matchesLabels,
  parseRequirements,
  type LabelRequirement,
  type LabelSelector,
} from "@cocoon/core/label-selector";
import { child, copyJson, own, put, type Json, type Texts } from "./json.ts";
import { qosLabel, skipResourcesAnnotation, subPriorityLabel } from "./keys.ts";
import type { ClusterColocationProfile } from "./kinds.ts";
import { strategicMerge, type MergeSchema } from "./patch/strategic-merge.ts";

type Spec = NonNullable<ClusterColocationProfile["spec"]>;

export interface CompiledProfile {
  readonly name: string;
  readonly spec: Spec;
  /** Where a part of them cannot be read: the parts that can. */
  readonly selector: readonly LabelRequirement[];
  readonly namespaceSelector: readonly LabelRequirement[];
  /** 0..100; undefined when the text is no percentage. */
  readonly percent: number | undefined;
  readonly skipsResources: boolean;
  readonly problem: string | undefined;
}

export function compileProfile(profile: ClusterColocationProfile): CompiledProfile {
  const spec = profile.spec ?? {};
  const common = {
    name: profile.metadata.name ?? "",
    spec,
    percent: readPercent(spec.probability),
    skipsResources: Object.hasOwn(profile.metadata.annotations ?? {}, skipResourcesAnnotation),
  };
  try {
    return {
      ...common,
      selector: parseRequirements(spec.selector ?? {}),
      namespaceSelector: parseRequirements(spec.namespaceSelector ?? {}),
      problem: undefined,
    };
  } catch (error) {
    return {
      ...common,
      selector: readUsableParts(spec.selector ?? {}),
      namespaceSelector: readUsableParts(spec.namespaceSelector ?? {}),
      problem: getErrorMessage(error),
    };
  }
}

function readUsableParts({ matchLabels, matchExpressions }: LabelSelector): LabelRequirement[] {
  const parts: readonly LabelSelector[] = [
    ...Object.entries(matchLabels ?? {}).map(([key, value]) => ({ matchLabels: { [key]: value } })),
    ...(matchExpressions ?? []).map((expression) => ({ matchExpressions: [expression] })),
  ];
  return parts.flatMap((part) => {
    try {
      return parseRequirements(part);
    } catch {
      return []; // the problem names it
    }
  });
}

export function describeProblem({ name, problem }: CompiledProfile): string {
  return `ClusterColocationProfile ${name} is ignored: ${problem}`;
}

function readPercent(probability: string | number | undefined): number | undefined {
  if (probability === undefined) return 100;
  const percent =
    typeof probability === "number"
      ? probability
      : Number(/^(\d{1,9})%$/.exec(probability)?.[1] ?? Number.NaN);
  return Number.isInteger(percent) ? percent : undefined;
}

/** Percent 0 never, 100 always, else that many times in a hundred. */
export function isDrawn(profile: CompiledProfile, random: () => number): boolean {
  const { percent } = profile;
  if (percent === undefined)
    throw new Fault(
      "internal",
      `ClusterColocationProfile ${profile.name}: spec.probability must be a number or a percentage such as 30%, not ${JSON.stringify(profile.spec.probability)}`,
    );
  if (percent <= 0) return false;
  return percent >= 100 || Math.floor(random() * 100) < percent;
}

/** A selector that this pod fulfils by a label it has, not by one it lacks. */
export function namesLabels(selector: readonly LabelRequirement[], labels: Texts): boolean {
  return (
    matchesLabels(selector, labels) &&
    selector.some(({ operator }) => operator === "In" || operator === "Exists")
  );
}

export interface ProfileTarget {
  readonly object: Json;
  readonly schema: MergeSchema;
  readonly podSpec: Json | undefined;
  readonly priorityClass: (name: string) => PriorityClass | undefined;
}

/** The fields of the profile, in the order that is documented. */
export function applyProfile({ spec, name }: CompiledProfile, target: ProfileTarget): void {
  const { object } = target;
  setTexts(object, "labels", spec.labels);
  setTexts(object, "annotations", spec.annotations);
  mapKeys(object, "labels", spec.labelKeysMapping);
  mapKeys(object, "annotations", spec.annotationKeysMapping);
  appendSuffixes(object, spec.labelSuffixes);
  if (spec.schedulerName && target.podSpec) target.podSpec["schedulerName"] = spec.schedulerName;
  if (spec.qosClass) setTexts(object, "labels", { [qosLabel]: spec.qosClass });
  if (spec.priorityClassName) setPriority(spec.priorityClassName, name, target);
  if (spec.koordinatorPriority !== undefined)
    setTexts(object, "labels", { [subPriorityLabel]: String(spec.koordinatorPriority) });
  if (spec.patch) patchObject(spec.patch, name, target);
}

/** Labels and annotations alone, for a pod that runs already: what places it stays as it is. */
export function applyMetadata({ spec }: CompiledProfile, object: Json): void {
  const fixed: ReadonlySet<string> = new Set([qosLabel, subPriorityLabel]);
  const labels = Object.entries(spec.labels ?? {}).filter(([key]) => !fixed.has(key));
  setTexts(object, "labels", Object.fromEntries(labels));
  setTexts(object, "annotations", spec.annotations);
}

function setTexts(object: Json, field: "labels" | "annotations", texts: Texts | undefined): void {
  if (!texts || Object.keys(texts).length === 0) return;
  const map = child(child(object, "metadata"), field);
  for (const [key, value] of Object.entries(texts)) put(map, key, value);
}

function mapKeys(object: Json, field: "labels" | "annotations", mapping: Texts | undefined): void {
  if (!mapping || Object.keys(mapping).length === 0) return;
  const map = child(child(object, "metadata"), field);
  for (const [from, to] of Object.entries(mapping)) put(map, to, own(map, from) ?? "");
}

function appendSuffixes(object: Json, suffixes: Texts = {}): void {
  for (const [key, suffix] of Object.entries(suffixes)) {
    const labels = own(child(object, "metadata"), "labels");
    const value = typeof labels === "object" && labels !== null ? own(labels as Json, key) : undefined;
    // The API server may ask twice about one pod: what has the suffix keeps it.
    if (typeof value === "string" && !value.endsWith(suffix)) put(labels as Json, key, `${value}${suffix}`);
  }
}

function setPriority(className: string, profile: string, { podSpec, priorityClass }: ProfileTarget): void {
  const found = priorityClass(className);
  if (!found)
    throw new Fault(
      "internal",
      `ClusterColocationProfile ${profile}: PriorityClass "${className}" not found; create it or change spec.priorityClassName`,
    );
  if (!podSpec) return;
  podSpec["priorityClassName"] = className;
  podSpec["priority"] = found.value;
  podSpec["preemptionPolicy"] = found.preemptionPolicy ?? "PreemptLowerPriority";
}

function patchObject(patch: Readonly<Record<string, unknown>>, profile: string, target: ProfileTarget): void {
  try {
    const patched = strategicMerge(target.object, copyJson(patch), target.schema);
    if (patched !== target.object) replaceContent(target.object, patched);
  } catch (error) {
    throw new Fault(
      "internal",
      `ClusterColocationProfile ${profile}: spec.patch: ${getErrorMessage(error)}`,
      {
        cause: error,
      },
    );
  }
}

function replaceContent(object: Json, content: Json): void {
  for (const key of Object.keys(object)) delete object[key];
  for (const [key, value] of Object.entries(content)) put(object, key, value);
}
