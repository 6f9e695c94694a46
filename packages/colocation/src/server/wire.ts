/**
 * Admission reviews as Koordinator's manager writes them: a refusal carries `status.metadata` and no `status.status`, an allowed
 * answer `code: 200`, and what could not be read is answered with 200, `allowed: false`, no version and an empty uid.
 */
import { Fault } from "@cocoon/core";
import {
  asciiJson,
  nestsDeeperThan,
  readRequest,
  type JsonObject,
  type Review,
  type ReviewWire,
  type Verdict,
} from "@cocoon/kube/admission";
import { isRecord } from "../json.ts";

export const maxBodyBytes = 7 * 1024 * 1024;

export const koordinatorWire: ReviewWire = { checkHeaders, read, write, refuse };

function checkHeaders({
  headers,
}: {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}): void {
  const type = String(headers["content-type"] ?? "");
  if (type !== "application/json")
    throw new Fault("unsupportedMediaType", `contentType=${type.slice(0, 200)}, expected application/json`);
  if (headers["content-encoding"] !== undefined)
    throw new Fault("unsupportedMediaType", "admission reviews are sent without content encoding");
}

/** A review without a request is about no resource; every endpoint allows it. */
function read(body: Buffer, { maxDepth }: { readonly maxDepth: number }): Review {
  const review = parse(body, maxDepth);
  const [apiVersion, kind] = [readText(review, "apiVersion"), readText(review, "kind")];
  const request = review["request"];
  if (request !== undefined && request !== null && !isRecord(request))
    throw new Fault("badRequest", "json: cannot decode request: it must be an object");
  return {
    version: "admission.k8s.io/v1",
    envelope:
      apiVersion === "" && kind === ""
        ? { apiVersion: "admission.k8s.io/v1", kind: "AdmissionReview" }
        : { apiVersion, kind },
    request: readRequest(isRecord(request) ? request : {}),
  };
}

function parse(body: Buffer, maxDepth: number): JsonObject {
  if (body.length === 0) throw new Fault("badRequest", "request body is empty");
  if (nestsDeeperThan(body, maxDepth))
    throw new Fault("badRequest", `the body nests deeper than ${maxDepth} levels`);
  let value: unknown;
  try {
    value = JSON.parse(body.toString("utf8").replace(/^\uFEFF/, ""));
  } catch {
    // The parser's own text quotes the body, which may hold secrets, and ends up in the API server's log.
    throw new Fault("badRequest", "couldn't get version/kind; json parse error: the body is not valid JSON");
  }
  if (value === null) return {};
  if (!isRecord(value))
    throw new Fault("badRequest", "json: cannot decode the body: it must be an AdmissionReview");
  return value;
}

function readText(review: JsonObject, field: string): string {
  const value = review[field];
  if (value === undefined || value === null) return "";
  if (typeof value !== "string")
    throw new Fault("badRequest", `json: cannot decode ${field}: it must be a string`);
  return value;
}

function write({ version, envelope, request }: Review, verdict: Verdict): string {
  const { apiVersion, kind } = envelope ?? { apiVersion: version, kind: "AdmissionReview" };
  return asciiJson({
    ...(kind === "" ? {} : { kind }),
    ...(apiVersion === "" ? {} : { apiVersion }),
    response: {
      uid: request.uid,
      ...(verdict.kind === "allow" ? allowed(verdict) : denied(verdict)),
      ...(verdict.warnings && verdict.warnings.length > 0 ? { warnings: verdict.warnings } : {}),
      ...(verdict.auditAnnotations ? { auditAnnotations: verdict.auditAnnotations } : {}),
    },
  });
}

function allowed({ patch }: Extract<Verdict, { kind: "allow" }>): object {
  const status = { metadata: {}, code: 200 };
  if (patch === undefined || patch.length === 0) return { allowed: true, status };
  const encoded = Buffer.from(JSON.stringify(patch), "utf8").toString("base64");
  return { allowed: true, patchType: "JSONPatch", patch: encoded, status };
}

function denied({ code, reason, message }: Extract<Verdict, { kind: "deny" }>): object {
  return { allowed: false, status: { metadata: {}, message, ...(reason === "" ? {} : { reason }), code } };
}

const statusCodes: Readonly<Partial<Record<Fault["code"], number>>> = { tooLarge: 413, tooManyRequests: 429 };

function refuse(fault: Fault): string {
  const message =
    fault.code === "tooLarge" ? `request entity is too large; limit is ${maxBodyBytes} bytes` : fault.message;
  const status = { metadata: {}, message, code: statusCodes[fault.code] ?? 400 };
  return asciiJson({ response: { uid: "", allowed: false, status } });
}
