/** `/validate-cocoonset`: every rule that the set breaks, in one answer. */
import {
  claimOfSet,
  nameTroublesOfSet,
  tryParseRelativeReference,
  type RelativeReference,
} from "@cocoon/contract";
import type { Abortable, FieldCause } from "@cocoon/core";
import { allow, type AdmissionContext, type AdmissionRequest } from "@cocoon/kube/admission";
import { violationsOf } from "./cocoonset-rules.ts";
import { emptyAgent, readSet, type SpecShape } from "./cocoonset-shape.ts";
import { allowed, deniedWith, failed, skipped, type Judgement } from "./judgement.ts";
import { isSameSpec } from "./same-spec.ts";

export interface SetRules {
  /** Who else holds names that the set would have; one text each. */
  readonly collisions: (claim: ReturnType<typeof claimOfSet>) => readonly string[];
  /** What will keep the set from running, as things are now: pools and nodes that do not exist. */
  readonly doubtsAbout: (spec: SpecShape) => readonly string[];
  /** Whether the registry surely does not have an image; undefined where there is none to ask. */
  readonly isAbsent: ((image: RelativeReference, options: Abortable) => Promise<boolean>) | undefined;
}

export function validateSets(rules: SetRules) {
  return (request: AdmissionRequest, context: AdmissionContext): Judgement | Promise<Judgement> => {
    if (request.operation !== "CREATE" && request.operation !== "UPDATE") return skipped("operation");
    const set = readSet(request.object);
    if (set.kind === "fault") return failed("decode", `decode CocoonSet: ${set.message}`);
    if (request.operation === "UPDATE" && isUnchanged(request)) return skipped("no_change");
    const { spec } = set;
    const name = set.name || request.name;
    const causes = [
      ...violationsOf(spec),
      ...immutableViolations(request, spec),
      ...nameViolations({ namespace: request.namespace, name }, spec, rules),
    ];
    if (causes.length > 0) return refuse(causes);
    const doubts = rules.doubtsAbout(spec);
    const images = rules.isAbsent ? newImages(request, spec) : [];
    if (!rules.isAbsent || images.length === 0) return admit(doubts);
    return missingImages(images, rules.isAbsent, context).then((missing) => admit([...doubts, ...missing]));
  };
}

function admit(warnings: readonly string[]): Judgement {
  return allowed(warnings.length === 0 ? allow() : allow({ warnings }));
}

interface Image {
  readonly field: string;
  readonly text: string;
  readonly reference: RelativeReference;
}

/** Snapshots to start from that this request names for the first time. */
function newImages({ oldObject }: AdmissionRequest, { agent, toolboxes }: SpecShape): Image[] {
  const before = JSON.stringify(oldObject ?? "");
  const machines = [
    { field: "spec.agent.image", image: agent?.image ?? "", mode: agent?.mode || "clone" },
    ...(toolboxes ?? []).map(({ image, mode }, index) => ({
      field: `spec.toolboxes[${index}].image`,
      image,
      mode: mode || "run",
    })),
  ];
  return machines.slice(0, mostImages).flatMap(({ field, image, mode }) => {
    const reference = mode === "clone" ? tryParseRelativeReference(image) : undefined;
    const isNew = !before.includes(JSON.stringify(image));
    return reference && isNew ? [{ field, text: image, reference }] : [];
  });
}

/** More are not asked for: it is a courtesy. */
const mostImages = 8;

async function missingImages(
  images: readonly Image[],
  isAbsent: NonNullable<SetRules["isAbsent"]>,
  { signal }: AdmissionContext,
): Promise<string[]> {
  const absent = await Promise.all(images.map(({ reference }) => isAbsent(reference, { signal })));
  return images.flatMap(({ field, text }, index) =>
    absent[index] ? [`${field}: the registry has no snapshot "${text.slice(0, 128)}" now`] : [],
  );
}

/** Sets that newer rules would refuse must stay deletable: what does not touch the spec passes. */
function isUnchanged({ object, oldObject }: AdmissionRequest): boolean {
  return oldObject !== undefined && isSameSpec(object?.["spec"], oldObject["spec"]);
}

function refuse(causes: readonly FieldCause[]): Judgement {
  const message = `cocoon-webhook: invalid CocoonSet spec: ${causes.map((cause) => cause.message).join("; ")}`;
  return deniedWith({ kind: "deny", code: 403, reason: "Forbidden", message, causes });
}

/** Written so that it only names what is new: a set that breaks a name rule already may still be changed. */
function nameViolations(
  key: { readonly namespace: string; readonly name: string },
  { agent, toolboxes }: SpecShape,
  { collisions }: SetRules,
): FieldCause[] {
  const names = (toolboxes ?? []).map((toolbox) => toolbox.name).filter((name) => name !== "");
  const replicas = Math.max(0, agent?.replicas ?? emptyAgent.replicas ?? 0);
  const field = "metadata.name";
  const troubles = nameTroublesOfSet({ ...key, replicas, toolboxes: names });
  const own = troubles.filter((text) => !/RFC 1123|purely numeric/.test(text)); // told already, in known words
  const claim = claimOfSet({ ...key, toolboxes: names });
  return [...own, ...collisions(claim)].map((message) => ({ field, message }));
}

function immutableViolations({ oldObject }: AdmissionRequest, spec: SpecShape): FieldCause[] {
  const old: unknown = oldObject?.["spec"];
  if (typeof old !== "object" || old === null || !("snapshotCompatibilityClass" in old)) return [];
  const before = old.snapshotCompatibilityClass;
  if (typeof before !== "string" || before === spec.snapshotCompatibilityClass) return [];
  const message = "snapshotCompatibilityClass is immutable once set";
  return [{ field: "spec.snapshotCompatibilityClass", message }];
}
