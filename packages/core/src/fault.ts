/**
 * The one error class. The code decides the HTTP status, the Kubernetes reason and whether a retry can help. `notFound` and
 * "could not ask" (`unavailable`, `timeout`) are different codes: a machine is forgotten only on the first.
 */
const catalogue = {
  badRequest: { status: 400, reason: "BadRequest", retry: false },
  unauthorized: { status: 401, reason: "Unauthorized", retry: false },
  forbidden: { status: 403, reason: "Forbidden", retry: false },
  notFound: { status: 404, reason: "NotFound", retry: false },
  methodNotAllowed: { status: 405, reason: "MethodNotAllowed", retry: false },
  conflict: { status: 409, reason: "Conflict", retry: true },
  alreadyExists: { status: 409, reason: "AlreadyExists", retry: false },
  gone: { status: 410, reason: "Expired", retry: true },
  preconditionFailed: { status: 412, reason: "PreconditionFailed", retry: false },
  tooLarge: { status: 413, reason: "RequestEntityTooLarge", retry: false },
  unsupportedMediaType: { status: 415, reason: "UnsupportedMediaType", retry: false },
  rangeNotSatisfiable: { status: 416, reason: "RangeNotSatisfiable", retry: false },
  invalid: { status: 422, reason: "Invalid", retry: false },
  tooManyRequests: { status: 429, reason: "TooManyRequests", retry: true },
  internal: { status: 500, reason: "InternalError", retry: true },
  damaged: { status: 500, reason: "InternalError", retry: true },
  notSupported: { status: 501, reason: "NotImplemented", retry: false },
  unavailable: { status: 503, reason: "ServiceUnavailable", retry: true },
  timeout: { status: 504, reason: "Timeout", retry: true },
  outOfSpace: { status: 507, reason: "InsufficientStorage", retry: true },
} as const;

export type FaultCode = keyof typeof catalogue;

export interface FaultTraits {
  readonly status: number;
  readonly reason: string;
  readonly retry: boolean;
}

export interface FieldCause {
  readonly field: string;
  readonly message: string;
  readonly reason?: string;
}

export interface FaultOptions {
  readonly cause?: unknown;
  readonly causes?: readonly FieldCause[];
  readonly retryAfterMs?: number;
}

export class Fault extends Error {
  override readonly name = "Fault";
  readonly code: FaultCode;
  readonly causes: readonly FieldCause[];
  readonly retryAfterMs: number | undefined;

  constructor(code: FaultCode, message: string, options: FaultOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.causes = options.causes ?? [];
    this.retryAfterMs = options.retryAfterMs;
  }

  get traits(): FaultTraits {
    return catalogue[this.code];
  }
}

export const faultCodes: readonly FaultCode[] = Object.keys(catalogue).filter(isFaultCode);

export function getTraits(code: FaultCode): FaultTraits {
  return catalogue[code];
}

function isFaultCode(text: string): text is FaultCode {
  return Object.hasOwn(catalogue, text);
}

export function isFault(error: unknown, code?: FaultCode): error is Fault {
  return error instanceof Fault && (code === undefined || error.code === code);
}

/** The result; undefined when it throws, or rejects with, a fault of that code. */
export function ignoreFault<T>(code: FaultCode, work: Promise<T>): Promise<T | undefined>;
export function ignoreFault<T>(code: FaultCode, work: () => T): T | undefined;
export function ignoreFault<T>(
  code: FaultCode,
  work: Promise<T> | (() => T),
): Promise<T | undefined> | T | undefined {
  const ignore = (error: unknown): undefined => {
    if (!isFault(error, code)) throw error;
    return undefined;
  };
  if (typeof work !== "function") return work.catch(ignore);
  try {
    return work();
  } catch (error) {
    return ignore(error);
  }
}

/** Turns anything thrown into a Fault; system errors that have a meaning of their own keep it. */
export function toFault(error: unknown, context?: string): Fault {
  if (error instanceof Fault) return context ? rewrap(error, context) : error;
  const message = [context, getErrorMessage(error)].filter(Boolean).join(": ");
  return new Fault(findCode(error), message, { cause: error });
}

function rewrap(fault: Fault, context: string): Fault {
  return new Fault(fault.code, `${context}: ${fault.message}`, {
    cause: fault,
    causes: fault.causes,
    ...(fault.retryAfterMs === undefined ? {} : { retryAfterMs: fault.retryAfterMs }),
  });
}

const systemErrorCodes: Readonly<Record<string, FaultCode>> = {
  ENOENT: "notFound",
  EEXIST: "alreadyExists",
  EACCES: "forbidden",
  EPERM: "forbidden",
  ENOSPC: "outOfSpace",
  EDQUOT: "outOfSpace",
  ECONNREFUSED: "unavailable",
  ECONNRESET: "unavailable",
  EHOSTUNREACH: "unavailable",
  ENETUNREACH: "unavailable",
  ENOTFOUND: "unavailable",
  EAI_AGAIN: "unavailable",
  EPIPE: "unavailable",
  ETIMEDOUT: "timeout",
};

function findCode(error: unknown): FaultCode {
  if (error instanceof Error && error.name === "TimeoutError") return "timeout";
  const code = systemCode(error);
  return (code && systemErrorCodes[code]) || "internal";
}

export function systemCode(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

/** One line for people: the message, and the message of each cause that says something new. */
export function getErrorMessage(error: unknown): string {
  const parts: string[] = [];
  let current: unknown = error;
  for (let depth = 0; current !== undefined && current !== null && depth < 8; depth += 1) {
    const text = ownMessage(current);
    if (text && !parts.some((part) => part.includes(text))) parts.push(text);
    current = current instanceof Error ? current.cause : undefined;
  }
  return parts.join(": ");
}

function ownMessage(value: unknown): string {
  if (value instanceof AggregateError && !value.message) return value.errors.map(ownMessage).join("; ");
  if (value instanceof Error) return value.message || value.name;
  return typeof value === "string" ? value : (JSON.stringify(value) ?? String(value));
}
