/** The frame of every endpoint: which requests are its own, what it is handed, how refusals become an answer. */
import { Fault, isFault } from "@cocoon/core";
import {
  allow,
  deny,
  type AdmissionContext,
  type AdmissionHandler,
  type AdmissionRequest,
  type JsonObject,
  type Verdict,
} from "@cocoon/kube/admission";
import type { Refusal, RuleName } from "./rules.ts";

export interface Owned {
  readonly resource: string;
  readonly subResource?: string;
  readonly kind: string;
}

export type Handling = (request: AdmissionRequest, context: AdmissionContext) => Verdict | Promise<Verdict>;

/** Requests about anything else are allowed at once; an object that cannot be read is refused with its reason. */
export function owning({ resource, subResource = "" }: Owned, handle: Handling): AdmissionHandler {
  return (request, context) => {
    if (request.resource.resource !== resource || request.subResource !== subResource) return allow();
    try {
      const verdict = handle(request, context);
      return verdict instanceof Promise ? verdict.catch(refuse) : verdict;
    } catch (error) {
      return refuse(error);
    }
  };
}

/** What the user can mend is a refusal; what we could not do is thrown on. */
function refuse(error: unknown): Verdict {
  if (isFault(error, "badRequest")) return deny(error.message, { code: 400, reason: "" });
  if (isFault(error, "internal")) return deny(error.message, { code: 500, reason: "" });
  throw error;
}

/** The object of the request; on UPDATE the old one is asked for as well. */
export function objectOf(request: AdmissionRequest, { kind }: Owned): JsonObject {
  return decoded(request.object, kind);
}

export function oldObjectOf(request: AdmissionRequest, { kind }: Owned): JsonObject {
  return decoded(request.oldObject, kind);
}

function decoded(object: JsonObject | undefined, kind: string): JsonObject {
  if (object === undefined) throw new Fault("badRequest", "there is no content to decode");
  const { apiVersion, kind: found } = object;
  if (typeof found === "string" && found !== "" && found !== kind)
    throw new Fault(
      "badRequest",
      `unable to decode ${typeof apiVersion === "string" ? apiVersion : ""}, Kind=${found} into *v1.${kind}`,
    );
  return object;
}

export interface RuleBook {
  /** Whether a broken rule only warns. */
  warns(rule: RuleName): boolean;
  /** Counts a broken rule. */
  broken(rule: RuleName, outcome: "refused" | "warned"): void;
}

type Refusals = Iterable<Refusal> | AsyncIterable<Refusal>;

/**
 * Takes groups of rules in order. The first group with a broken rule that is enforced decides; several messages of one
 * group are joined. Broken rules in warn mode become warnings and the rules go on.
 */
export async function judge(groups: Iterable<() => Refusals>, book: RuleBook): Promise<Verdict> {
  const warnings: string[] = [];
  for (const group of groups) {
    const enforced: Refusal[] = [];
    for await (const refusal of group()) {
      const warned = book.warns(refusal.rule);
      book.broken(refusal.rule, warned ? "warned" : "refused");
      if (warned) warnings.push(warningText(refusal));
      else enforced.push(refusal);
    }
    if (enforced.length > 0) return denial(enforced, warnings);
  }
  return warnings.length === 0 ? allow() : allow({ warnings });
}

/** The same for rules that answer at once. */
export function judgeNow(groups: Iterable<() => Iterable<Refusal>>, book: RuleBook): Verdict {
  const warnings: string[] = [];
  for (const group of groups) {
    const enforced: Refusal[] = [];
    for (const refusal of group()) {
      const warned = book.warns(refusal.rule);
      book.broken(refusal.rule, warned ? "warned" : "refused");
      if (warned) warnings.push(warningText(refusal));
      else enforced.push(refusal);
    }
    if (enforced.length > 0) return denial(enforced, warnings);
  }
  return warnings.length === 0 ? allow() : allow({ warnings });
}

function warningText({ rule, message }: Refusal): string {
  return `${rule} (warn only): ${message}`;
}

function denial(refusals: readonly Refusal[], warnings: readonly string[]): Verdict {
  const [first] = refusals;
  const texts = refusals.map(({ message }) => message);
  const message = texts.length === 1 ? (texts[0] ?? "") : `[${texts.join(", ")}]`;
  return deny(message, {
    code: first?.code ?? 400,
    reason: first?.reason ?? "",
    ...(warnings.length > 0 ? { warnings } : {}),
  });
}
