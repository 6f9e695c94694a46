/** What is around every rule: failures, the rate limit and the audit log. */
import { getErrorMessage, type Logger } from "@cocoon/core";
import {
  allow,
  deny,
  type AdmissionContext,
  type Decision,
  type Middleware,
  type ReviewEvent,
  type Verdict,
} from "@cocoon/kube/admission";
import { TokenBucket } from "@cocoon/kube/controller";

interface SafetyOptions {
  readonly isLenient: (endpoint: string) => boolean;
  readonly failed: (endpoint: string, outcome: "refused" | "allowed") => void;
}

/**
 * A handler that fails is refused where the policy is Fail and allowed where it is Ignore: the API server follows an answer
 * even where failurePolicy is Ignore.
 */
export function safety({ isLenient, failed }: SafetyOptions): Middleware {
  return (next, { name }) => {
    const recover = (error: unknown, context: AdmissionContext): Verdict => {
      const lenient = isLenient(name);
      // Too late: the answer was given when time was over, and counted then.
      if (context.signal.aborted) return allow();
      failed(name, lenient ? "allowed" : "refused");
      context.log.error({ err: error, error: getErrorMessage(error) }, "admission handler failed");
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

export interface RateLimitOptions {
  readonly perSecond: number;
  readonly burst: number;
  /** Endpoints that may not stand in the way: what is over the limit is let through unchecked. */
  readonly isLenient: (endpoint: string) => boolean;
  readonly limited: (endpoint: string, outcome: "refused" | "allowed") => void;
  readonly nowMs?: () => number;
}

/** More clients than this are forgotten, oldest first: a limit must not become a leak. */
const maxClients = 10_000;

/** So many requests per second for each user of the API server and endpoint. */
export function rateLimit(options: RateLimitOptions): Middleware {
  const { perSecond, burst, nowMs = () => performance.now() } = options;
  return (next, { name }) => {
    if (perSecond <= 0) return next;
    const buckets = new Map<string, TokenBucket>();
    const limits = { burst, refillMs: 1000 / perSecond };
    return (request, context) => {
      const now = nowMs();
      const bucket = takeBucket(buckets, request.userInfo.username, () => new TokenBucket(limits, now));
      if (bucket.take(now) === 0) return next(request, context);
      const lenient = options.isLenient(name);
      options.limited(name, lenient ? "allowed" : "refused");
      if (lenient) return allow({ warnings: [`${name}: over the rate limit, allowed unchecked`] });
      return deny(`${name}: more than ${perSecond} requests per second from this client, try again later`, {
        code: 429,
        reason: "TooManyRequests",
      });
    };
  };
}

/** The client that was silent longest is the first of the map. */
function takeBucket(
  buckets: Map<string, TokenBucket>,
  client: string,
  create: () => TokenBucket,
): TokenBucket {
  const bucket = buckets.get(client) ?? create();
  buckets.delete(client);
  buckets.set(client, bucket);
  const oldest = buckets.keys().next().value;
  if (buckets.size > maxClients && oldest !== undefined) buckets.delete(oldest);
  return bucket;
}

export type AuditLevel = "none" | "changes" | "all";

const maxPaths = 40;
const maxTextLength = 500;

/**
 * One line per review. Of a patch only operations and paths are logged, of objects nothing: values may be secrets.
 * `changes`: only what was refused, changed or could not be decided.
 */
export function auditor(log: Logger, level: AuditLevel): (event: ReviewEvent) => void {
  return (event) => {
    const { request, verdict, result } = event;
    if (level === "none" || !request || request.resource.resource === "") return;
    if (level === "changes" && result === "allow") return;
    log.info(
      {
        audit: true,
        endpoint: event.handler,
        uid: request.uid,
        user: short(request.userInfo.username),
        operation: short(request.operation),
        resource: short(
          [request.resource.group, request.resource.resource, request.subResource].filter(Boolean).join("/"),
        ),
        namespace: short(request.namespace),
        name: short(request.name),
        dryRun: request.dryRun,
        verdict: result,
        ...(verdict?.kind === "deny" ? { code: verdict.code, message: short(verdict.message) } : {}),
        ...(verdict?.kind === "allow" && verdict.patch ? { patch: patchSummary(verdict.patch) } : {}),
        ...(verdict?.warnings && verdict.warnings.length > 0 ? { warnings: verdict.warnings.length } : {}),
        tookMs: Math.round(event.seconds * 1000),
      },
      "admission",
    );
  };
}

function patchSummary(patch: readonly { readonly op: string; readonly path: string }[]): string[] {
  return patch.slice(0, maxPaths).map(({ op, path }) => short(`${op} ${path}`));
}

function short(text: string): string {
  return text.length > maxTextLength ? `${text.slice(0, maxTextLength)}…` : text;
}
