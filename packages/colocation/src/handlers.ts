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

export interface HandledResource {
  readonly resource: string;
  readonly subResource?: string;
  readonly kind: string;
}

export type Handling = (request: AdmissionRequest, context: AdmissionContext) => Verdict | Promise<Verdict>;

/** Requests about anything else are allowed at once; an object that cannot be read is refused with its reason. */
export function handleResource(
  { resource, subResource = "" }: HandledResource,
  handle: Handling,
): AdmissionHandler {
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

/** The object of the request; see `getOldObject` for the old one. */
export function getReviewedObject(request: AdmissionRequest, { kind }: HandledResource): JsonObject {
  return decoded(request.object, kind);
}

export function getOldObject(request: AdmissionRequest, { kind }: HandledResource): JsonObject {
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

export interface RulePolicy {
  warns(rule: RuleName): boolean;
  broken(rule: RuleName, outcome: "refused" | "warned"): void;
}

type Refusals = Iterable<Refusal> | AsyncIterable<Refusal>;

/** Sorts the broken rules of one group: those in warn mode become warnings. */
class Evaluation {
  readonly #policy: RulePolicy;
  readonly #warnings: string[] = [];
  readonly #enforced: Refusal[] = [];

  constructor(policy: RulePolicy) {
    this.#policy = policy;
  }

  note(refusal: Refusal): void {
    const warned = this.#policy.warns(refusal.rule);
    this.#policy.broken(refusal.rule, warned ? "warned" : "refused");
    if (warned) this.#warnings.push(`${refusal.rule} (warn only): ${refusal.message}`);
    else this.#enforced.push(refusal);
  }

  get denial(): Verdict | undefined {
    return this.#enforced.length > 0 ? denial(this.#enforced, this.#warnings) : undefined;
  }

  get allowed(): Verdict {
    return this.#warnings.length === 0 ? allow() : allow({ warnings: this.#warnings });
  }
}

/** Evaluates groups of rules in order: the first with an enforced broken rule decides, its messages are joined. */
export async function evaluate(groups: Iterable<() => Refusals>, policy: RulePolicy): Promise<Verdict> {
  const evaluation = new Evaluation(policy);
  for (const group of groups) {
    for await (const refusal of group()) evaluation.note(refusal);
    if (evaluation.denial) return evaluation.denial;
  }
  return evaluation.allowed;
}

export function evaluateNow(groups: Iterable<() => Iterable<Refusal>>, policy: RulePolicy): Verdict {
  const evaluation = new Evaluation(policy);
  for (const group of groups) {
    for (const refusal of group()) evaluation.note(refusal);
    if (evaluation.denial) return evaluation.denial;
  }
  return evaluation.allowed;
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
