/** `/mutate-reservation`: the same profiles as for pods, put on the Reservation and its template. */
import type { Logger } from "@cocoon/core";
import { matchesLabels } from "@cocoon/core/label-selector";
import { diffJson } from "@cocoon/core/json-patch";
import { allow, allowWithPatch, type AdmissionHandler, type Verdict } from "@cocoon/kube/admission";
import { objectOf, owning, type Owned } from "../handlers.ts";
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
import { priorityClassesOf } from "../pod/mutate.ts";
import { applyProfile, isDrawn } from "../profile-engine.ts";
import type { ClusterView } from "../view.ts";

export interface ReservationMutatorOptions {
  readonly view: ClusterView;
  readonly random?: () => number;
  readonly log: Logger;
}

const reservationKind: Owned = { resource: "reservations", kind: "Reservation" };

/** A Reservation has no namespace, so the profiles' namespace selectors do not count. */
export function reservationMutator(options: ReservationMutatorOptions): AdmissionHandler {
  return owning(reservationKind, (request) => {
    if (request.operation !== "CREATE") return allow();
    return create(objectOf(request, reservationKind), options);
  });
}

async function create(
  object: ReadonlyJson,
  { view, random = Math.random }: ReservationMutatorOptions,
): Promise<Verdict> {
  const labels = readTexts(readObject(object, "metadata", "metadata") ?? {}, "labels", "metadata.labels");
  readTexts(readObject(object, "metadata", "metadata") ?? {}, "annotations", "metadata.annotations");
  const matched = view
    .profiles()
    .filter((profile) => profile.trouble === undefined && matchesLabels(profile.selector, labels));
  const classes = await priorityClassesOf(matched, view);
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
  return allowWithPatch(diffJson(object, reservation));
}

function templateSpec(reservation: Json): Json | undefined {
  const spec = own(reservation, "spec");
  const template = isRecord(spec) ? own(spec, "template") : undefined;
  return isRecord(template) ? child(template, "spec") : undefined;
}
