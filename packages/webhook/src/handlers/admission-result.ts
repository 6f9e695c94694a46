/** A verdict with the words under which it is counted: exactly one sample per request. */
import { allow, deny, type Denied, type DenyOptions, type Verdict } from "@cocoon/kube/admission";

type Result = "allow" | "deny" | "error" | "skipped";
export type Reason =
  | "operation"
  | "kind"
  | "decode"
  | "no_parent"
  | "not_cocoon"
  | "no_change"
  | "parent_fetch"
  | "list"
  | "affinity"
  | "owner"
  | "identity"
  | "";

export interface AdmissionResult {
  readonly verdict: Verdict;
  readonly result: Result;
  readonly reason: Reason;
}

export function skipped(reason: Reason): AdmissionResult {
  return { verdict: allow(), result: "skipped", reason };
}

export function allowed(verdict: Verdict = allow()): AdmissionResult {
  return { verdict, result: "allow", reason: "" };
}

export function denied(message: string, options: DenyOptions = {}): AdmissionResult {
  return deniedWith(deny(message, options));
}

export function deniedWith(verdict: Denied): AdmissionResult {
  return { verdict, result: "deny", reason: "" };
}

/** Something that we had to know could not be found out: the request is refused. */
export function failed(reason: Reason, message: string, options: DenyOptions = {}): AdmissionResult {
  return { verdict: deny(message, options), result: "error", reason };
}
