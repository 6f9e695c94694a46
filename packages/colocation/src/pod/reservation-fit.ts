/** A pod that names a Reservation must fit into what nobody has taken of it yet. */
import { compareQuantities, subtractQuantities } from "@cocoon/core/quantity";
import { isRecord, own, readObject, tryParseJson, type ReadonlyJson } from "../json.ts";
import { reservationAffinityAnnotation } from "../keys.ts";
import type { Reservation } from "../kinds.ts";
import { amount, quantityText, readResources, type Resources } from "../resources.ts";
import type { Refusal } from "../rules.ts";
import type { ClusterView } from "../view.ts";
import { podRequest } from "./pod-request.ts";
import { readPod, type PodReading } from "./read-pod.ts";

const path = `annotations.${reservationAffinityAnnotation}`;

export async function* reservationFit(pod: PodReading, view: ClusterView): AsyncGenerator<Refusal> {
  const name = reservationNameOf(pod);
  if (name === undefined || name === "") return;
  const reservation = await view.reservation(name);
  const message = reservation ? misfit(name, reservation, pod) : `${path}: Not found: reservation "${name}"`;
  if (message !== undefined) yield { rule: "reservation-fit", message };
}

function reservationNameOf({ annotations }: PodReading): string | undefined {
  const text = annotations[reservationAffinityAnnotation];
  const value = text === undefined ? undefined : tryParseJson(text)?.value;
  const name = isRecord(value) ? own(value, "name") : undefined;
  return typeof name === "string" ? name : undefined;
}

function misfit(name: string, reservation: Reservation, pod: PodReading): string | undefined {
  const { phase } = reservation.status ?? {};
  if (phase === "Failed" || phase === "Succeeded")
    return `${path}: Invalid value: "${name}": the reservation is over (${phase})`;
  const room = unallocated(reservation);
  const short = [...podRequest(pod)].filter(
    ([resource, wanted]) => room.has(resource) && compareQuantities(wanted, amount(room, resource)) > 0,
  );
  if (short.length === 0) return undefined;
  const parts = short.map(
    ([resource, wanted]) => `${resource} ${quantityText(wanted)} of ${quantityText(amount(room, resource))}`,
  );
  return `${path}: Invalid value: "${name}": the pod does not fit the unallocated part: ${parts.join(", ")}`;
}

/** Before it is scheduled a reservation has no status: then its template says how much there will be. */
function unallocated({ spec, status }: Reservation): Resources {
  const allocatable = status?.allocatable
    ? readResources(status, "allocatable", "status.allocatable")
    : templateRequest(spec?.template);
  const allocated = readResources(status, "allocated", "status.allocated");
  return new Map(
    [...allocatable].map(([name, quantity]) => [name, subtractQuantities(quantity, amount(allocated, name))]),
  );
}

function templateRequest(template: ReadonlyJson | undefined): Resources {
  const spec = template && readObject(template, "spec", "spec.template.spec");
  return spec ? podRequest(readPod({ spec })) : new Map();
}
