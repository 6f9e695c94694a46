/** Who calls the kubelet: a client certificate of the cluster's CA, or a bearer token that the API server knows. */
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import { isFault, type Logger } from "@cocoon/core";
import { resourceType, type KubeClient, type KubeObject } from "@cocoon/kube";
import { ExpiringMap } from "./expiring-map.ts";

export interface User {
  readonly name: string;
  readonly uid?: string;
  readonly groups: readonly string[];
  readonly extra?: Readonly<Record<string, readonly string[]>>;
}

/** Undefined: nobody we know. Throws `unavailable` when it could not be found out. */
export type Authenticator = (request: IncomingMessage) => Promise<User | undefined>;

interface TokenReview extends KubeObject {
  readonly spec: { readonly token: string; readonly audiences?: readonly string[] };
  readonly status?: {
    readonly authenticated?: boolean;
    readonly user?: {
      readonly username?: string;
      readonly uid?: string;
      readonly groups?: readonly string[];
      readonly extra?: Readonly<Record<string, readonly string[]>>;
    };
  };
}

const tokenReviews = resourceType<TokenReview>({
  group: "authentication.k8s.io",
  version: "v1",
  kind: "TokenReview",
  plural: "tokenreviews",
  namespaced: false,
});
const rememberMs = 2 * 60_000;

/** The TLS layer has verified the certificate against the client CA already; here it becomes a user. */
function clientCertificateUser(request: IncomingMessage): User | undefined {
  const { socket } = request;
  if (!(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  const subject = socket.getPeerCertificate().subject as
    | { readonly CN?: string; readonly O?: string | string[] }
    | undefined;
  if (!subject?.CN) return undefined;
  const groups = subject.O === undefined ? [] : Array.isArray(subject.O) ? subject.O : [subject.O];
  return { name: subject.CN, groups: [...groups, "system:authenticated"] };
}

export function createAuthenticator(client: KubeClient, log: Logger): Authenticator {
  // Keyed by hash: a heap dump of ours must not be a list of tokens.
  const known = new ExpiringMap<User | "nobody">(1_000);
  return async (request) => {
    const byCertificate = clientCertificateUser(request);
    if (byCertificate) return byCertificate;
    const token = /^Bearer (\S+)$/.exec(request.headers.authorization ?? "")?.[1];
    if (!token) return undefined;
    const key = createHash("sha256").update(token).digest("base64");
    const user = known.get(key) ?? (await reviewToken(client, token, log));
    known.set(key, user, rememberMs);
    return user === "nobody" ? undefined : user;
  };
}

async function reviewToken(client: KubeClient, token: string, log: Logger): Promise<User | "nobody"> {
  try {
    const review = await client.create(
      tokenReviews,
      { metadata: {}, spec: { token } },
      { signal: AbortSignal.timeout(10_000) },
    );
    const user = review.status?.user;
    if (!review.status?.authenticated || !user?.username) return "nobody";
    return {
      name: user.username,
      groups: user.groups ?? [],
      ...(user.uid ? { uid: user.uid } : {}),
      ...(user.extra ? { extra: user.extra } : {}),
    };
  } catch (error) {
    if (isFault(error) && !error.traits.retry) {
      log.warn({ code: error.code }, "token review refused");
      return "nobody";
    }
    throw error;
  }
}
