/** `/mutate-reservation`: the same profiles as for pods, put on the Reservation and its template. */
import { matchesLabels } from "@cocoon/core/label-selector";
import { diffJson } from "@cocoon/core/json-patch";
import { allow, allowWithPatch, type AdmissionHandler, type Verdict } from "@cocoon/kube/admission";
import { getReviewedObject, handleResource, type HandledResource } from "../handlers.ts";
import {
  child,
  copyJson,
  isRecord,
  own,
  readObject,
  readTexts,
  type Json,
  type ReadonlyJson,
} from "../json.ts";
import { reservationSchema } from "../patch/schemas.ts";
import { listPriorityClasses, type PodMutatorOptions } from "../pod/mutate.ts";
import { applyProfile, describeProblem, isDrawn } from "../profile-engine.ts";

type ReservationMutatorOptions = Pick<PodMutatorOptions, "view" | "random" | "log">;

const reservationKind: HandledResource = { resource: "reservations", kind: "Reservation" };

/** A Reservation has no namespace, so the profiles' namespace selectors do not count. */
export function reservationMutator(options: ReservationMutatorOptions): AdmissionHandler {
  return handleResource(reservationKind, (request) => {
    if (request.operation !== "CREATE") return allow();
    return create(getReviewedObject(request, reservationKind), options);
  });
}

async function create(
  object: ReadonlyJson,
  { view, log, random = Math.random }: ReservationMutatorOptions,
): Promise<Verdict> {
  const labels = readTexts(readObject(object, "metadata", "metadata") ?? {}, "labels", "metadata.labels");
  readTexts(readObject(object, "metadata", "metadata") ?? {}, "annotations", "metadata.annotations");
  const selecting = view.profiles().filter((profile) => matchesLabels(profile.selector, labels));
  const matched = selecting.filter(({ problem }) => problem === undefined);
  const unusable = selecting.filter(({ problem }) => problem !== undefined);
  for (const { name: profile, problem: error } of unusable)
    log.warn({ profile, error }, "profile with an unusable selector ignored");
  const classes = await listPriorityClasses(matched, view);
  const reservation = copyJson(object) as Json;
  for (const profile of matched) {
    if (!isDrawn(profile, random)) continue;
    applyProfile(profile, {
      object: reservation,
      schema: reservationSchema,
      podSpec: templateSpec(reservation),
      priorityClass: (name) => classes.get(name),
    });
  }
  const warnings = unusable.map(describeProblem);
  return allowWithPatch(diffJson(object, reservation), warnings.length > 0 ? { warnings } : {});
}

function templateSpec(reservation: Json): Json | undefined {
  const spec = own(reservation, "spec");
  const template = isRecord(spec) ? own(spec, "template") : undefined;
  return isRecord(template) ? child(template, "spec") : undefined;
}
