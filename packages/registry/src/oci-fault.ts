/**
 * The error codes of the distribution specification on top of our one error class: the code travels as the reason
 * of the fault's first cause, and decides the HTTP status.
 */
import { Fault, type FaultCode } from "@cocoon/core/fault";

const codes = {
  BLOB_UNKNOWN: "notFound",
  BLOB_UPLOAD_INVALID: "badRequest",
  BLOB_UPLOAD_UNKNOWN: "notFound",
  DIGEST_INVALID: "badRequest",
  MANIFEST_BLOB_UNKNOWN: "badRequest",
  MANIFEST_INVALID: "badRequest",
  MANIFEST_UNKNOWN: "notFound",
  NAME_INVALID: "badRequest",
  NAME_UNKNOWN: "notFound",
  PAGINATION_NUMBER_INVALID: "badRequest",
  SIZE_INVALID: "badRequest",
  UNAUTHORIZED: "unauthorized",
  DENIED: "forbidden",
  UNSUPPORTED: "methodNotAllowed",
  TOOMANYREQUESTS: "tooManyRequests",
} as const satisfies Record<string, FaultCode>;

export type OciCode = keyof typeof codes;

export interface OciFaultOptions {
  /** Another HTTP meaning than the usual one of the code, such as 413 or 416. */
  readonly as?: FaultCode;
  readonly cause?: unknown;
  readonly retryAfterMs?: number;
}

export function ociFault(code: OciCode, message: string, options: OciFaultOptions = {}): Fault {
  const { as, ...rest } = options;
  return new Fault(as ?? codes[code], message, { ...rest, causes: [{ field: "", message, reason: code }] });
}

/** Codes of faults that do not carry one. */
const fallbacks: Partial<Record<FaultCode, string>> = {
  badRequest: "UNSUPPORTED",
  unauthorized: "UNAUTHORIZED",
  forbidden: "DENIED",
  notFound: "NAME_UNKNOWN",
  methodNotAllowed: "UNSUPPORTED",
  tooLarge: "SIZE_INVALID",
  rangeNotSatisfiable: "SIZE_INVALID",
  tooManyRequests: "TOOMANYREQUESTS",
  unavailable: "UNAVAILABLE",
  timeout: "UNAVAILABLE",
  outOfSpace: "UNAVAILABLE",
};

export function findOciCode(fault: Fault): string {
  const reason = fault.causes[0]?.reason;
  if (reason !== undefined && Object.hasOwn(codes, reason)) return reason;
  return fallbacks[fault.code] ?? "UNKNOWN";
}
