/** QoS and priority classes: what a pod says, and what follows when it does not. */
import { priorityClassLabel, qosLabel } from "./keys.ts";
import type { Texts } from "./json.ts";
import type { PodReading } from "./pod/read-pod.ts";

export type QosClass = "LSE" | "LSR" | "LS" | "BE" | "SYSTEM" | "";
export type PriorityBand = "koord-prod" | "koord-mid" | "koord-batch" | "koord-free" | "";

const qosClasses: ReadonlySet<string> = new Set(["LSE", "LSR", "LS", "BE", "SYSTEM"]);
const bands: readonly (readonly [PriorityBand, number, number])[] = [
  ["koord-prod", 9000, 9999],
  ["koord-mid", 7000, 7999],
  ["koord-batch", 5000, 5999],
  ["koord-free", 3000, 3999],
];

/** Anything that is no class counts as none. */
export function readQos(labels: Texts): QosClass {
  const text = labels[qosLabel] ?? "";
  return qosClasses.has(text) ? (text as QosClass) : "";
}

function findBand(priority: number | undefined): PriorityBand {
  if (priority === undefined) return "";
  return bands.find(([, low, high]) => priority >= low && priority <= high)?.[0] ?? "";
}

/** The label where it exists, even with an unknown value; else the band of the priority. */
export function rawPriorityClass(labels: Texts, priority: number | undefined): PriorityBand {
  if (!Object.hasOwn(labels, priorityClassLabel)) return findBand(priority);
  const label = labels[priorityClassLabel];
  return bands.find(([name]) => name === label)?.[0] ?? "";
}

/** What a pod without a class of its own counts as, by its QoS; without that, by Kubernetes' QoS. */
export function defaultedPriorityClass(
  pod: Pick<PodReading, "labels" | "priority" | "isBestEffort">,
): PriorityBand {
  const raw = rawPriorityClass(pod.labels, pod.priority);
  if (raw !== "") return raw;
  const qos = readQos(pod.labels);
  if (qos !== "") return qos === "BE" ? "koord-batch" : "koord-prod";
  return pod.isBestEffort() ? "koord-batch" : "koord-prod";
}
