/** QoS and priority of a pod must fit together, and stay as they were. */
import { compareQuantities, type Quantity } from "@cocoon/core/quantity";
import type { Gates } from "../gates.ts";
import { batchCpu, batchMemory, qosLabel, subPriorityLabel } from "../keys.ts";
import { qosOf, rawPriorityClass, type PriorityBand, type QosClass } from "../priority.ts";
import { amount, quantityText, zero } from "../resources.ts";
import type { Refusal } from "../rules.ts";
import { podRequest } from "./pod-request.ts";
import type { PodReading } from "./read-pod.ts";

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
  const qos = qosOf(pod.labels);
  const request = podRequest(pod);
  const asksBatch = [batchCpu, batchMemory].some(
    (name) => compareQuantities(amount(request, name), zero) !== 0,
  );
  if (asksBatch && qos !== "BE")
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
      message: `${requestsPath}: Invalid value: "${quantityText(cpu)}": the requested CPUs of LSR Pod must be integer`,
    };
}

function* unchanged(pod: PodReading, old: PodReading, gates: Gates): Generator<Refusal> {
  const immutable = (path: string, value: string) => `${path}: Invalid value: "${value}": field is immutable`;
  const qos = qosOf(pod.labels);
  if (qos !== qosOf(old.labels))
    yield { rule: "qos-immutable", message: immutable(`labels.${qosLabel}`, qos) };
  const band = rawPriorityClass(pod.labels, pod.priority);
  if (band !== rawPriorityClass(old.labels, old.priority))
    yield { rule: "priority-immutable", message: immutable("spec.priority", band) };
  const sub = pod.labels[subPriorityLabel] ?? "";
  if (!gates.ColocationProfileSkipValidatingPriority && sub !== (old.labels[subPriorityLabel] ?? ""))
    yield { rule: "sub-priority-immutable", message: immutable(`labels.${subPriorityLabel}`, sub) };
}
