/** What a handler decides. Plain data, so that deciding can be tested without a server. */
import type { Fault, FieldCause } from "@cocoon/core";
import type { JsonPatchOperation } from "@cocoon/core/json-patch";

interface Remarks {
  /** Shown to the user by kubectl, one line each; keep them short, the API server cuts at 256 characters. */
  readonly warnings?: readonly string[];
  /** Keys without prefix: the API server puts the webhook's name before them. */
  readonly auditAnnotations?: Readonly<Record<string, string>>;
}

export interface Allowed extends Remarks {
  readonly kind: "allow";
  /** RFC 6902; none or empty means unchanged. */
  readonly patch?: readonly JsonPatchOperation[];
}

export interface Denied extends Remarks {
  readonly kind: "deny";
  /** HTTP status that the API server gives the client, 400..599. */
  readonly code: number;
  /** Kubernetes reason such as `Forbidden` or `Invalid`. */
  readonly reason: string;
  /** Names the field and the fix. */
  readonly message: string;
  readonly causes?: readonly FieldCause[];
}

export type Verdict = Allowed | Denied;

const plainAllow: Allowed = { kind: "allow" };

export function allow(remarks?: Remarks): Allowed {
  return remarks ? { kind: "allow", ...remarks } : plainAllow;
}

export function allowWithPatch(patch: readonly JsonPatchOperation[], remarks: Remarks = {}): Allowed {
  return { kind: "allow", patch, ...remarks };
}

export interface DenyOptions extends Remarks {
  readonly code?: number;
  readonly reason?: string;
  readonly causes?: readonly FieldCause[];
}

/** A refusal by policy: 403 `Forbidden` unless said otherwise. */
export function deny(message: string, options: DenyOptions = {}): Denied {
  return { kind: "deny", code: 403, reason: "Forbidden", message, ...options };
}

/** The object itself is wrong: 422 `Invalid`, all faulty fields at once. */
export function denyInvalid(causes: readonly FieldCause[], remarks: Remarks = {}): Denied {
  const message = causes.map((cause) => `${cause.field}: ${cause.message}`).join("; ");
  return { kind: "deny", code: 422, reason: "Invalid", message, causes, ...remarks };
}

/** The refusal that a fault's code stands for. Its message goes to the user, so it must be fit for them. */
export function denyFault(fault: Fault, remarks: Remarks = {}): Denied {
  const { status, reason } = fault.traits;
  return {
    kind: "deny",
    code: status,
    reason,
    message: fault.message,
    ...(fault.causes.length > 0 ? { causes: fault.causes } : {}),
    ...remarks,
  };
}
