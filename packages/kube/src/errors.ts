/** What the server said went wrong, as a Fault. Why there is no answer at all is in connection-fault.ts. */
import { Fault, type FaultCode, type FaultOptions, type FieldCause } from "@cocoon/core";
import * as z from "zod";

const statusSchema = z.object({
  kind: z.literal("Status"),
  message: z.string().optional(),
  reason: z.string().optional(),
  code: z.number().optional(),
  details: z
    .object({
      name: z.string().optional(),
      kind: z.string().optional(),
      causes: z
        .array(
          z.object({
            reason: z.string().optional(),
            message: z.string().optional(),
            field: z.string().optional(),
          }),
        )
        .nullish(),
      retryAfterSeconds: z.number().optional(),
    })
    .nullish(),
});

type Status = z.infer<typeof statusSchema>;

/** Kubernetes' own words first: one HTTP status can mean several things (409, 410, 500, 504). */
const codeOfReason: Readonly<Record<string, FaultCode>> = {
  BadRequest: "badRequest",
  Unauthorized: "unauthorized",
  Forbidden: "forbidden",
  NotFound: "notFound",
  MethodNotAllowed: "methodNotAllowed",
  NotAcceptable: "unsupportedMediaType",
  UnsupportedMediaType: "unsupportedMediaType",
  Conflict: "conflict",
  AlreadyExists: "alreadyExists",
  Gone: "gone",
  Expired: "gone",
  RequestEntityTooLarge: "tooLarge",
  Invalid: "invalid",
  TooManyRequests: "tooManyRequests",
  InternalError: "internal",
  ServerTimeout: "timeout",
  Timeout: "timeout",
  ServiceUnavailable: "unavailable",
};

const codeOfHttpStatus: Readonly<Record<number, FaultCode>> = {
  401: "unauthorized",
  403: "forbidden",
  404: "notFound",
  405: "methodNotAllowed",
  406: "unsupportedMediaType",
  408: "timeout",
  409: "conflict",
  410: "gone",
  412: "preconditionFailed",
  413: "tooLarge",
  415: "unsupportedMediaType",
  422: "invalid",
  429: "tooManyRequests",
  501: "notSupported",
  502: "unavailable",
  503: "unavailable",
  504: "timeout",
};

export interface FailedAnswer {
  readonly status: number;
  readonly text: string;
  readonly retryAfter: string | undefined;
  /** What was asked, for an answer that does not say it itself: `list pods`. */
  readonly what: string;
}

/** The fault that a non-2xx answer stands for. */
export function faultOfAnswer(answer: FailedAnswer): Fault {
  const status = tryReadStatus(answer.text);
  if (status) return faultOfStatus(status, answer);
  const code = codeOfHttp(answer.status);
  const said = answer.text.trim().slice(0, 300) || "no text";
  return new Fault(code, `${answer.what}: HTTP ${answer.status}: ${said}`, withRetryAfter(answer, undefined));
}

/**
 * A typed call got a 404 that is not about an object: the server, or something in front of it, does not know the
 * kind. That is "could not ask", never "the object is not there".
 */
export function isUnservedKind(answer: FailedAnswer): boolean {
  return answer.status === 404 && !tryReadStatus(answer.text)?.details?.name;
}

/** The fault that a Status object inside a watch stream stands for. */
export function faultOfStatusObject(object: unknown, what: string): Fault {
  const parsed = statusSchema.safeParse(object);
  const answer = { status: 500, text: "", retryAfter: undefined, what };
  if (!parsed.success)
    return new Fault("internal", `${what}: the server reported an error without saying which`);
  return faultOfStatus(parsed.data, { ...answer, status: parsed.data.code ?? 500 });
}

function tryReadStatus(text: string): Status | undefined {
  if (!text.startsWith("{")) return undefined;
  try {
    return statusSchema.parse(JSON.parse(text));
  } catch {
    return undefined; // an answer of something that is not the API server: its text is shown instead
  }
}

function faultOfStatus(status: Status, answer: FailedAnswer): Fault {
  const code = codeOfReason[status.reason ?? ""] ?? codeOfHttp(answer.status);
  const causes = (status.details?.causes ?? []).map((cause): FieldCause => ({
    field: cause.field ?? "",
    message: cause.message ?? "",
    ...(cause.reason === undefined ? {} : { reason: cause.reason }),
  }));
  const message = status.message || `${answer.what}: ${status.reason ?? `HTTP ${answer.status}`}`;
  return new Fault(code, message, { causes, ...withRetryAfter(answer, status) });
}

function codeOfHttp(status: number): FaultCode {
  return codeOfHttpStatus[status] ?? (status >= 500 ? "internal" : "badRequest");
}

const longestRetryAfterMs = 300_000;

function withRetryAfter(
  answer: FailedAnswer,
  status: Status | undefined,
): Pick<FaultOptions, "retryAfterMs"> {
  const seconds = Number(answer.retryAfter ?? status?.details?.retryAfterSeconds ?? Number.NaN);
  if (!Number.isFinite(seconds) || seconds < 0) return {};
  return { retryAfterMs: Math.min(seconds * 1000, longestRetryAfterMs) };
}
