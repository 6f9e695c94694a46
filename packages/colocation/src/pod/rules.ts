/** QoS and priority of a pod must fit together, and stay as they were. */
import { tryParseJson } from "@cocoon/core";
import {
  canonicalQuantity,
  compareQuantities,
  type Quantity,
  quantityUnits,
  subtractQuantities,
} from "@cocoon/core/quantity";
import type { Gates } from "../gates.ts";
import {
  batchCpu,
  batchMemory,
  qosLabel,
  subPriorityLabel,
  gpu,
  defaultQuota,
  quotaKey,
  reservationAffinityAnnotation,
} from "../keys.ts";
import { readQos, rawPriorityClass, type PriorityBand, type QosClass } from "../priority.ts";
import { amount, zero, type Resources, readResources } from "../resources.ts";
import type { Refusal } from "../rules.ts";
import { computePodRequest, type PodReading, readPod } from "./read-pod.ts";
import type { QuotaTree } from "../quota/quota-tree.ts";
import { isRecord, own, readObject, type ReadonlyJson } from "../json.ts";
import type { Reservation } from "../kinds.ts";
import type { ClusterView } from "../view.ts";

/** Which classes a QoS does not go with; a QoS that is not listed goes with all. */
const forbidden: Readonly<Partial<Record<QosClass, ReadonlySet<PriorityBand>>>> = {
  LSR: new Set(["koord-mid", "koord-batch", "koord-free", ""]),
  BE: new Set(["koord-prod", ""]),
};

const requestsPath = "pod.spec.containers[*].resources.requests";

export function* colocationRules(
  pod: PodReading,
  old: PodReading | undefined,
  gates: Gates,
): Generator<Refusal> {
  if (old) yield* unchanged(pod, old, gates);
  const qos = readQos(pod.labels);
  const request = computePodRequest(pod);
  const requestsBatch = [batchCpu, batchMemory].some(
    (name) => compareQuantities(amount(request, name), zero) !== 0,
  );
  if (requestsBatch && qos !== "BE")
    yield {
      rule: "batch-needs-be",
      message: `labels.${qosLabel}: Required value: must specify koordinator QoS BE with koordinator colocation resources`,
    };
  const band = rawPriorityClass(pod.labels, pod.priority);
  if (forbidden[qos]?.has(band))
    yield {
      rule: "qos-priority-matrix",
      message: `Pod: Forbidden: ${qosLabel}=${qos} and priorityClass=${band} cannot be used in combination`,
    };
  if (qos === "LSR" || qos === "LSE") yield* wholeCpus(amount(request, "cpu"));
}

function* wholeCpus(cpu: Quantity): Generator<Refusal> {
  if (compareQuantities(cpu, zero) === 0)
    yield {
      rule: "lsr-cpu",
      message: `${requestsPath}: Required value: LSR Pod must declare the requested CPUs`,
    };
  else if (cpu.nanos % 1_000_000_000n !== 0n)
    yield {
      rule: "lsr-cpu",
      message: `${requestsPath}: Invalid value: "${canonicalQuantity(cpu)}": the requested CPUs of LSR Pod must be integer`,
    };
}

function* unchanged(pod: PodReading, old: PodReading, gates: Gates): Generator<Refusal> {
  const immutable = (path: string, value: string) => `${path}: Invalid value: "${value}": field is immutable`;
  const qos = readQos(pod.labels);
  if (qos !== readQos(old.labels))
    yield { rule: "qos-immutable", message: immutable(`labels.${qosLabel}`, qos) };
  const band = rawPriorityClass(pod.labels, pod.priority);
  if (band !== rawPriorityClass(old.labels, old.priority))
    yield { rule: "priority-immutable", message: immutable("spec.priority", band) };
  const sub = pod.labels[subPriorityLabel] ?? "";
  if (!gates.ColocationProfileSkipValidatingPriority && sub !== (old.labels[subPriorityLabel] ?? ""))
    yield { rule: "sub-priority-immutable", message: immutable(`labels.${subPriorityLabel}`, sub) };
}

export function* deviceRules({ containers }: PodReading): Generator<Refusal> {
  for (const { requests } of containers)
    for (const message of findProblems(requests))
      yield { rule: "device-resources", message: `${requestsPath}: ${message}` };
}

function* findProblems(requests: Resources): Generator<string> {
  const whole = requests.get(gpu.whole);
  const shared = requests.get(gpu.shared);
  if (whole && shared) yield "Forbidden: Forbidden declare GPU and GPU share at same time";
  if (whole) yield* findWholeProblems(whole);
  if (shared) yield* findSharedProblems(requests, shared);
}

function* findWholeProblems(whole: Quantity): Generator<string> {
  const units = quantityUnits(whole);
  if (units === 0n) yield invalid(whole, "the requested GPU must be greater than zero");
  else if (units > 100n && units % 100n !== 0n)
    yield invalid(whole, "the requested GPU must be percentage of 100");
}

function* findSharedProblems(requests: Resources, shared: Quantity): Generator<string> {
  const units = quantityUnits(shared);
  if (units === 0n) {
    yield invalid(shared, "the requested gpu.shared must be greater than zero");
    return;
  }
  if (!isZero(requests.get(gpu.npuCore))) return;
  const [memory, ratio, core] = [
    requests.get(gpu.memory),
    requests.get(gpu.memoryRatio),
    requests.get(gpu.core),
  ];
  if (isZero(memory) && isZero(ratio)) yield "Forbidden: gpuMemory and gpuMemoryRatio are both zero";
  if (!isZero(memory) && !isZero(ratio))
    yield "Forbidden: Forbidden declare gpuMemory and gpuMemoryRatio at same time";
  if (core && quantityUnits(core) % units !== 0n)
    yield invalid(core, "the requested gpuCore must multiple of shared");
  if (ratio && quantityUnits(ratio) % units !== 0n)
    yield invalid(ratio, "the requested gpuMemoryRatio must multiple of shared");
}

function isZero(quantity: Quantity | undefined): boolean {
  return quantity === undefined || compareQuantities(quantity, zero) === 0;
}

function invalid(value: Quantity, message: string): string {
  return `Invalid value: "${canonicalQuantity(value)}": ${message}`;
}

type Member = Pick<PodReading, "name" | "namespace" | "labels">;

/** The name that counts; it need not be of a quota that exists. */
export function findQuotaName({ labels, namespace }: Member, tree: QuotaTree, gates: Gates): string {
  const label = labels[quotaKey.name];
  if (label) return label;
  if (!gates.DisableDefaultQuota && tree.named(namespace).some((each) => each.namespace === namespace))
    return namespace;
  return tree.boundTo(namespace)?.name ?? defaultQuota;
}

export function* quotaMembershipRules(
  { pod, old }: { readonly pod: Member; readonly old: Member | undefined },
  tree: QuotaTree,
  gates: Gates,
): Generator<Refusal> {
  if (old && (pod.labels[quotaKey.preemptible] ?? "") !== (old.labels[quotaKey.preemptible] ?? ""))
    yield { rule: "quota-preemptible", message: "Preemptible label is forbidden modify now." };
  if (gates.SupportParentQuotaSubmitPod) return;
  const name = findQuotaName(pod, tree, gates);
  if (tree.get(name)?.isParent)
    yield {
      rule: "quota-membership",
      message: `pod can not be linked to a parentQuotaGroup,quota:${name}, pod:${pod.name}`,
    };
}

const affinityPath = `annotations.${reservationAffinityAnnotation}`;

export async function* reservationFit(pod: PodReading, view: ClusterView): AsyncGenerator<Refusal> {
  const name = readReservationName(pod);
  if (name === undefined || name === "") return;
  const reservation = await view.reservation(name);
  const message = reservation
    ? misfit(name, reservation, pod)
    : `${affinityPath}: Not found: reservation "${name}"`;
  if (message !== undefined) yield { rule: "reservation-fit", message };
}

function readReservationName({ annotations }: PodReading): string | undefined {
  const text = annotations[reservationAffinityAnnotation];
  const value = text === undefined ? undefined : tryParseJson(text);
  const name = isRecord(value) ? own(value, "name") : undefined;
  return typeof name === "string" ? name : undefined;
}

function misfit(name: string, reservation: Reservation, pod: PodReading): string | undefined {
  const { phase } = reservation.status ?? {};
  if (phase === "Failed" || phase === "Succeeded")
    return `${affinityPath}: Invalid value: "${name}": the reservation is over (${phase})`;
  const room = unallocated(reservation);
  const short = [...computePodRequest(pod)].filter(
    ([resource, wanted]) => room.has(resource) && compareQuantities(wanted, amount(room, resource)) > 0,
  );
  if (short.length === 0) return undefined;
  const parts = short.map(
    ([resource, wanted]) =>
      `${resource} ${canonicalQuantity(wanted)} of ${canonicalQuantity(amount(room, resource))}`,
  );
  return `${affinityPath}: Invalid value: "${name}": the pod does not fit the unallocated part: ${parts.join(", ")}`;
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
  return spec ? computePodRequest(readPod({ spec })) : new Map();
}
