/** A handler that fails: refused where the policy is Fail, let through where it is Ignore; counted either way. */
import { messageOf } from "@cocoon/core";
import {
  allow,
  deny,
  type AdmissionContext,
  type Decision,
  type Middleware,
  type Verdict,
} from "@cocoon/kube/admission";

export interface SafetyOptions {
  readonly isLenient: (endpoint: string) => boolean;
  readonly failed: (endpoint: string, outcome: "refused" | "allowed") => void;
}

/** The API server heeds an answer even where failurePolicy is Ignore, so a failure must not become a refusal there. */
export function safety({ isLenient, failed }: SafetyOptions): Middleware {
  return (next, { name }) => {
    const recover = (error: unknown, context: AdmissionContext): Verdict => {
      const lenient = isLenient(name);
      // Too late: the answer was given when time was over, and counted then.
      if (context.signal.aborted) return allow();
      failed(name, lenient ? "allowed" : "refused");
      context.log.error({ err: error, error: messageOf(error) }, "admission handler failed");
      if (lenient) return allow({ warnings: [`${name}: could not be checked, allowed`] });
      return deny(`${name}: could not be decided, try again; see the webhook's log`, {
        code: 500,
        reason: "",
      });
    };
    return (request, context) => {
      let decision: Decision | Promise<Decision>;
      try {
        decision = next(request, context);
      } catch (error) {
        return recover(error, context);
      }
      return decision instanceof Promise
        ? decision.catch((error: unknown) => recover(error, context))
        : decision;
    };
  };
}
