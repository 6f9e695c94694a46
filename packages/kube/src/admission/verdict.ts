/** What a handler decides. Plain data, so that deciding can be tested without a server. */
import type { FieldCause } from "@cocoon/core";
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
  readonly code: number;
  readonly reason: string;
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

/** A refusal by policy: 403 `Forbidden` by default. */
export function deny(message: string, options: DenyOptions = {}): Denied {
  return { kind: "deny", code: 403, reason: "Forbidden", message, ...options };
}
