/** So many requests per second, per client and endpoint. The client is who asked the API server. */
import { allow, deny, type Middleware } from "@cocoon/kube/admission";

export interface RateLimitOptions {
  /** 0: none. */
  readonly perSecond: number;
  readonly burst: number;
  /** Endpoints that may not stand in the way: what is over the limit is let through unchecked. */
  readonly isLenient: (endpoint: string) => boolean;
  readonly limited: (endpoint: string, outcome: "refused" | "allowed") => void;
  readonly nowMs?: () => number;
}

interface Bucket {
  tokens: number;
  atMs: number;
}

/** More clients than this are forgotten, oldest first: a limit must not become a leak. */
const maxClients = 10_000;

export function rateLimit(options: RateLimitOptions): Middleware {
  const { perSecond, burst, nowMs = () => performance.now() } = options;
  return (next, { name }) => {
    if (perSecond <= 0) return next;
    const buckets = new Map<string, Bucket>();
    return (request, context) => {
      if (takeToken(buckets, request.userInfo.username, { perSecond, burst, nowMs: nowMs() }))
        return next(request, context);
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

function takeToken(
  buckets: Map<string, Bucket>,
  client: string,
  { perSecond, burst, nowMs }: { readonly perSecond: number; readonly burst: number; readonly nowMs: number },
): boolean {
  const bucket = buckets.get(client) ?? { tokens: burst, atMs: nowMs };
  bucket.tokens = Math.min(burst, bucket.tokens + ((nowMs - bucket.atMs) / 1000) * perSecond);
  bucket.atMs = nowMs;
  // Put last again, so that the first is the one that was silent longest.
  buckets.delete(client);
  buckets.set(client, bucket);
  if (buckets.size > maxClients)
    for (const oldest of buckets.keys()) {
      buckets.delete(oldest);
      break;
    }
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}
