/**
 * The answer on the wire: an AdmissionReview of the version that came in, with the uid copied. The request is not
 * echoed; no API server reads it back.
 *
 * The text is pure ASCII (everything else is escaped), so its length in characters is its length in bytes and it goes
 * out in one piece with the headers, without being encoded or measured first.
 */
import type { FieldCause } from "@cocoon/core";
import type { Review } from "./read-review.ts";
import type { AdmissionRequest } from "./request.ts";
import type { Denied, Verdict } from "./verdict.ts";

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
  const details = causes && causes.length > 0 ? { details: detailsOf(causes, request) } : {};
  return `"allowed":false,"status":${json({ metadata: {}, status: "Failure", message, reason, ...details, code })}`;
}

/** With kind and name kubectl prints `The Pod "x" is invalid: …` and lists the causes. */
function detailsOf(causes: readonly FieldCause[], { name, kind }: AdmissionRequest): object {
  return {
    ...(name === "" ? {} : { name }),
    ...(kind.group === "" ? {} : { group: kind.group }),
    ...(kind.kind === "" ? {} : { kind: kind.kind }),
    causes: causes.map(({ field, message, reason = "FieldValueInvalid" }) => ({ reason, message, field })),
  };
}

function remarks({ warnings, auditAnnotations }: Verdict): string {
  let text = "";
  if (auditAnnotations) text += `,"auditAnnotations":${json(auditAnnotations)}`;
  if (warnings && warnings.length > 0) text += `,"warnings":${json(warnings)}`;
  return text;
}

const plain = /^[\w-]*$/;

function quoted(text: string): string {
  return plain.test(text) ? `"${text}"` : json(text);
}

const beyondAscii = /[\u007f-\uffff]/g;

function json(value: unknown): string {
  return JSON.stringify(value).replaceAll(
    beyondAscii,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
