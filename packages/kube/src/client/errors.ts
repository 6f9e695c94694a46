/** Failures as Faults: what the server answered, and why there is no answer at all ("could not ask"). */
import {
  Fault,
  faultCodes,
  getErrorMessage,
  getTraits,
  isFault,
  systemCode,
  type FaultCode,
  type FaultOptions,
  type FieldCause,
} from "@cocoon/core";
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

/** What the catalogue of faults does not name: other spellings of its reasons, and statuses of proxies. */
const otherReasons: Readonly<Record<string, FaultCode>> = {
  NotAcceptable: "unsupportedMediaType",
  Gone: "gone",
  ServerTimeout: "timeout",
};
const otherStatuses: Readonly<Record<number, FaultCode>> = {
  406: "unsupportedMediaType",
  408: "timeout",
  502: "unavailable",
};

export interface FailedAnswer {
  readonly status: number;
  readonly text: string;
  readonly retryAfter: string | undefined;
  readonly what: string;
}

export function readFailedAnswer(answer: FailedAnswer): Fault {
  const status = tryReadStatus(answer.text);
  if (status) return buildStatusFault(status, answer);
  const code = findCodeOfStatus(answer.status);
  const said = answer.text.trim().slice(0, 300) || "no text";
  return new Fault(code, `${answer.what}: HTTP ${answer.status}: ${said}`, withRetryAfter(answer, undefined));
}

/** A 404 that is not about an object: the server does not know the kind. That is "could not ask", not "not there". */
export function isUnservedKind(answer: FailedAnswer): boolean {
  return answer.status === 404 && !tryReadStatus(answer.text)?.details?.name;
}

export function readStatusObject(object: unknown, what: string): Fault {
  const parsed = statusSchema.safeParse(object);
  const answer = { status: 500, text: "", retryAfter: undefined, what };
  if (!parsed.success)
    return new Fault("internal", `${what}: the server reported an error without saying which`);
  return buildStatusFault(parsed.data, { ...answer, status: parsed.data.code ?? 500 });
}

function tryReadStatus(text: string): Status | undefined {
  if (!text.startsWith("{")) return undefined;
  try {
    return statusSchema.parse(JSON.parse(text));
  } catch {
    return undefined; // an answer of something that is not the API server: its text is shown instead
  }
}

function buildStatusFault(status: Status, answer: FailedAnswer): Fault {
  const code = findCodeOfReason(status.reason ?? "") ?? findCodeOfStatus(answer.status);
  const causes = (status.details?.causes ?? []).map((cause): FieldCause => ({
    field: cause.field ?? "",
    message: cause.message ?? "",
    ...(cause.reason === undefined ? {} : { reason: cause.reason }),
  }));
  const message = status.message || `${answer.what}: ${status.reason ?? `HTTP ${answer.status}`}`;
  return new Fault(code, message, { causes, ...withRetryAfter(answer, status) });
}

/** The reason first: one HTTP status can mean several things (409, 410, 500, 504). */
function findCodeOfReason(reason: string): FaultCode | undefined {
  return faultCodes.find((code) => getTraits(code).reason === reason) ?? otherReasons[reason];
}

function findCodeOfStatus(status: number): FaultCode {
  const known = faultCodes.find((code) => getTraits(code).status === status) ?? otherStatuses[status];
  return known ?? (status >= 500 ? "internal" : "badRequest");
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

export interface TargetNames {
  readonly server: string;
  readonly source: string;
  readonly serverField: string;
  readonly caField: string;
}

type Explain = (names: TargetNames, error: unknown) => string;

const untrusted: Explain = ({ caField }) =>
  `its certificate is not signed by the CA in ${caField}; put the CA of that cluster there`;
const unresolved: Explain = ({ serverField }) => `the host name does not resolve; check ${serverField}`;
const silent: Explain = ({ serverField }) =>
  `it does not answer; check ${serverField}, the network and proxies`;
const cut: Explain = () => "the connection was cut before the answer was complete";

const explanations: Readonly<Record<string, Explain>> = {
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: untrusted,
  UNABLE_TO_GET_ISSUER_CERT: untrusted,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: untrusted,
  SELF_SIGNED_CERT_IN_CHAIN: untrusted,
  DEPTH_ZERO_SELF_SIGNED_CERT: untrusted,
  CERT_SIGNATURE_FAILURE: untrusted,
  CERT_UNTRUSTED: untrusted,
  CERT_HAS_EXPIRED: () => "its certificate has expired; renew the server's certificate",
  CERT_NOT_YET_VALID: () => "its certificate is not valid yet; compare the clocks of both machines",
  ERR_TLS_CERT_ALTNAME_INVALID: ({ serverField }, error) =>
    `${getErrorMessage(error)}; use a name that the certificate has in ${serverField}, or set tls-server-name`,
  ECONNREFUSED: ({ serverField }) => `connection refused; is it running, and is ${serverField} right?`,
  ENOTFOUND: unresolved,
  EAI_AGAIN: unresolved,
  UND_ERR_CONNECT_TIMEOUT: silent,
  ETIMEDOUT: silent,
  EHOSTUNREACH: silent,
  ENETUNREACH: silent,
  UND_ERR_SOCKET: cut,
  ECONNRESET: cut,
  EPIPE: cut,
};

export function explainConnection(error: unknown, names: TargetNames): Fault {
  const explain = explanations[systemCode(error) ?? ""];
  const reason = explain ? explain(names, error) : getErrorMessage(error);
  const message = `cannot talk to the API server ${names.server} (${names.source}): ${reason}`;
  return new Fault("unavailable", message, { cause: error });
}

/** The connection ended while an answer was awaited: a restarted server, or a kept-alive connection that was stale. */
export function isCut(error: unknown): boolean {
  return explanations[systemCode(error) ?? ""] === cut;
}

/** A write that names the uid of an object that is gone, while another object has its name. */
export function isReplaced(error: unknown): boolean {
  return isFault(error, "invalid") && error.causes.some(({ field }) => field === "metadata.uid");
}
