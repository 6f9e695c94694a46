/** `/validate-cocoonset`: every rule that the set breaks, in one answer. */
import {
  buildSetClaim,
  findNameProblems,
  tryParseRelativeReference,
  type RelativeReference,
} from "@cocoon/contract";
import { getErrorMessage, type Abortable, type FieldCause } from "@cocoon/core";
import { allow, type AdmissionContext, type AdmissionRequest } from "@cocoon/kube/admission";
import { readSetSources, type MachineSource } from "../identity/machine-sources.ts";
import type { SourceAccess } from "../identity/source-access.ts";
import { findViolations } from "./cocoonset-rules.ts";
import { emptyAgent, readSet, type SpecShape } from "./cocoonset-shape.ts";
import { allowed, deniedWith, failed, skipped, type AdmissionResult } from "./admission-result.ts";
import { isSameSpec } from "./same-spec.ts";

export interface SetRules {
  /** Other holders of names that the set would have; one text each. */
  readonly collisions: (claim: ReturnType<typeof buildSetClaim>) => readonly string[];
  /** What will keep the set from running at the moment: pools and nodes that do not exist. */
  readonly findWarnings: (spec: SpecShape) => readonly string[];
  readonly isAbsent: ((image: RelativeReference, options: Abortable) => Promise<boolean>) | undefined;
  readonly sourceAccess: SourceAccess;
}

export function validateSets(rules: SetRules) {
  return (
    request: AdmissionRequest,
    context: AdmissionContext,
  ): AdmissionResult | Promise<AdmissionResult> => {
    if (request.operation !== "CREATE" && request.operation !== "UPDATE") return skipped("operation");
    const set = readSet(request.object);
    if (set.kind === "fault") return failed("decode", `decode CocoonSet: ${set.message}`);
    if (request.operation === "UPDATE" && isUnchanged(request)) return skipped("no_change");
    const { spec } = set;
    const key = { namespace: request.namespace, name: set.name || request.name };
    const before = request.operation === "UPDATE" ? readOldSpec(request) : undefined;
    const causes = [
      ...newViolations(spec, before, (each) => [
        ...findViolations(each),
        ...nameViolations(key, each, rules),
      ]),
      ...immutableViolations(request, spec),
    ];
    if (causes.length > 0) return refuse(causes);
    const sources = newSources(key, spec, before);
    if (sources.length === 0) return admitWithWarnings(request, spec, { rules, context });
    return checkSources({ request, sources }, rules, context).then(
      (refusal) => refusal ?? admitWithWarnings(request, spec, { rules, context }),
    );
  };
}

function readOldSpec({ oldObject }: AdmissionRequest): SpecShape | undefined {
  const old = readSet(oldObject);
  return old.kind === "value" ? old.spec : undefined;
}

/** What is stored stays editable: a rule that the old set breaks in the same place and with the same value is not new. */
function newViolations(
  spec: SpecShape,
  before: SpecShape | undefined,
  find: (spec: SpecShape) => FieldCause[],
): FieldCause[] {
  const found = find(spec);
  if (!before || found.length === 0) return found;
  const known = new Set(find(before).map((cause) => withToolboxNames(cause.message, before)));
  return found.filter((cause) => !known.has(withToolboxNames(cause.message, spec)));
}

/** Toolboxes change their index when another one is added or removed. */
function withToolboxNames(message: string, { toolboxes }: SpecShape): string {
  return message.replaceAll(
    /spec\.toolboxes\[(\d+)\]/g,
    (text, index: string) => toolboxes?.[Number(index)]?.name ?? text,
  );
}

type SetKey = { readonly namespace: string; readonly name: string };

function newSources({ namespace }: SetKey, spec: SpecShape, before: SpecShape | undefined): MachineSource[] {
  const known = new Set(before ? readSetSources(before, namespace).map(({ vmName }) => vmName) : []);
  return readSetSources(spec, namespace).filter(({ vmName }) => !known.has(vmName));
}

async function checkSources(
  { request, sources }: { readonly request: AdmissionRequest; readonly sources: readonly MachineSource[] },
  { sourceAccess }: SetRules,
  { signal }: AdmissionContext,
): Promise<AdmissionResult | undefined> {
  const { namespace, userInfo: user } = request;
  try {
    const violations = await sourceAccess({ namespace, user, sources }, { signal });
    return violations.length === 0 ? undefined : refuse(violations);
  } catch (error) {
    signal.throwIfAborted();
    const message = `cocoon-webhook: cannot verify the sources of the set: ${getErrorMessage(error)}`;
    return failed("identity", message, { code: 503, reason: "ServiceUnavailable" });
  }
}

function admitWithWarnings(
  request: AdmissionRequest,
  spec: SpecShape,
  { rules, context }: { readonly rules: SetRules; readonly context: AdmissionContext },
): AdmissionResult | Promise<AdmissionResult> {
  const warnings = rules.findWarnings(spec);
  const images = rules.isAbsent ? newImages(request, spec) : [];
  if (!rules.isAbsent || images.length === 0) return admit(warnings);
  return missingImages(images, rules.isAbsent, context).then((missing) => admit([...warnings, ...missing]));
}

function admit(warnings: readonly string[]): AdmissionResult {
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

/** More are not looked up: the warnings are a courtesy. */
const mostImages = 8;

async function missingImages(
  images: readonly Image[],
  isAbsent: NonNullable<SetRules["isAbsent"]>,
  { signal }: AdmissionContext,
): Promise<string[]> {
  const absent = await Promise.all(images.map(({ reference }) => isAbsent(reference, { signal })));
  return images.flatMap(({ field, text }, index) =>
    absent[index]
      ? [
          `${field}: the registry has no snapshot "${text.slice(0, 128)}" now; a node that has an image of that name boots it`,
        ]
      : [],
  );
}

/** Sets that newer rules would refuse must stay deletable: what does not touch the spec passes. */
function isUnchanged({ object, oldObject }: AdmissionRequest): boolean {
  return oldObject !== undefined && isSameSpec(object?.["spec"], oldObject["spec"]);
}

function refuse(causes: readonly FieldCause[]): AdmissionResult {
  const message = `cocoon-webhook: invalid CocoonSet spec: ${causes.map((cause) => cause.message).join("; ")}`;
  return deniedWith({ kind: "deny", code: 403, reason: "Forbidden", message, causes });
}

function nameViolations(
  key: SetKey,
  { agent, toolboxes }: SpecShape,
  { collisions }: SetRules,
): FieldCause[] {
  const names = (toolboxes ?? []).map((toolbox) => toolbox.name).filter((name) => name !== "");
  const replicas = Math.max(0, agent?.replicas ?? emptyAgent.replicas ?? 0);
  const field = "metadata.name";
  const problems = findNameProblems({ ...key, replicas, toolboxes: names });
  const own = problems.filter((text) => !/RFC 1123|purely numeric/.test(text)); // reported by the rules of the spec
  const claim = buildSetClaim({ ...key, toolboxes: names });
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
