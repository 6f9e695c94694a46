/** How reviews are spelled on the wire. There is one usual way; a server that replaces another may need its own. */
import { Fault, type FieldCause } from "@cocoon/core";
import type { IncomingMessage } from "node:http";
import { readReview, type Review } from "./read-review.ts";
import type { AdmissionRequest } from "./request.ts";
import type { Denied, Verdict } from "./verdict.ts";

export interface ReviewWire {
  checkHeaders(request: Pick<IncomingMessage, "method" | "headers">): void;
  read(body: Buffer, limits: { readonly maxDepth: number }): Review;
  write(review: Review, verdict: Verdict): string;
  /** The body of a 200 for a request that could not be read; without it the fault's HTTP status is the answer. */
  refuse?(fault: Fault): string;
}

export const usualWire: ReviewWire = { checkHeaders, read: readReview, write: writeReview };

function checkHeaders({ method, headers }: Pick<IncomingMessage, "method" | "headers">): void {
  if (method !== "POST") throw new Fault("methodNotAllowed", "admission reviews are sent with POST");
  if (!isJson(headers["content-type"]))
    throw new Fault("unsupportedMediaType", "admission reviews are sent as application/json");
  if (headers["content-encoding"] !== undefined)
    throw new Fault("unsupportedMediaType", "admission reviews are sent without content encoding");
}

function isJson(contentType: string | undefined): boolean {
  if (contentType === "application/json") return true;
  return contentType?.split(";")[0]?.trim().toLowerCase() === "application/json";
}

/** Pure ASCII, so that its length in characters is its length in bytes and it goes out in one piece with the headers. */
export function writeReview({ version, request }: Review, verdict: Verdict): string {
  const head = `{"kind":"AdmissionReview","apiVersion":"${version}","response":{"uid":${quoted(request.uid)},`;
  const decision = verdict.kind === "allow" ? allowed(verdict.patch) : denied(verdict, request);
  return `${head}${decision}${remarks(verdict)}}}`;
}

function allowed(patch: readonly object[] | undefined): string {
  if (patch === undefined || patch.length === 0) return `"allowed":true`;
  const encoded = Buffer.from(JSON.stringify(patch), "utf8").toString("base64");
  return `"allowed":true,"patchType":"JSONPatch","patch":"${encoded}"`;
}

function denied({ code, reason, message, causes }: Denied, request: AdmissionRequest): string {
  const details = causes && causes.length > 0 ? { details: buildDetails(causes, request) } : {};
  return `"allowed":false,"status":${asciiJson({ metadata: {}, status: "Failure", message, reason, ...details, code })}`;
}

/** With kind and name kubectl prints `The Pod "x" is invalid: …` and lists the causes. */
function buildDetails(causes: readonly FieldCause[], { name, kind }: AdmissionRequest): object {
  return {
    ...(name === "" ? {} : { name }),
    ...(kind.group === "" ? {} : { group: kind.group }),
    ...(kind.kind === "" ? {} : { kind: kind.kind }),
    causes: causes.map(({ field, message, reason = "FieldValueInvalid" }) => ({ reason, message, field })),
  };
}

function remarks({ warnings, auditAnnotations }: Verdict): string {
  let text = "";
  if (auditAnnotations) text += `,"auditAnnotations":${asciiJson(auditAnnotations)}`;
  if (warnings && warnings.length > 0) text += `,"warnings":${asciiJson(warnings)}`;
  return text;
}

const plain = /^[\w-]*$/;

function quoted(text: string): string {
  return plain.test(text) ? `"${text}"` : asciiJson(text);
}

const beyondAscii = /[\u007f-\uffff]/g;

/** Pure ASCII: its length in characters is its length in bytes. */
export function asciiJson(value: unknown): string {
  return JSON.stringify(value).replaceAll(
    beyondAscii,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
