/** The names of all rules, and how a broken one is answered: refused, or only warned about while it is tried out. */

export const ruleNames = [
  "reserve-pod",
  "qos-immutable",
  "priority-immutable",
  "sub-priority-immutable",
  "batch-needs-be",
  "qos-priority-matrix",
  "lsr-cpu",
  "quota-preemptible",
  "quota-membership",
  "quota-admission",
  "device-resources",
  "enhanced",
  "reservation-fit",
  "pod-binding",
  "node-slo-conflict",
  "node-amplification",
  "quota-self",
  "quota-topology",
  "quota-child-max",
  "quota-cycle",
  "quota-delete",
  "slo-parse",
  "slo-selector",
  "slo-bounds",
  "slo-names",
  "slo-overlap",
  "slo-network",
  "slo-node-conflict",
] as const;

export type RuleName = (typeof ruleNames)[number];

export interface Refusal {
  readonly rule: RuleName;
  readonly message: string;
  /** 400 by default. */
  readonly code?: number;
  readonly reason?: string;
}
