/** Signed file URLs: any holder of the URL may read or write that one path, until it expires. */
import { createHash } from "node:crypto";
import { ApiError } from "../http/answer.ts";
import { equalTexts } from "../sandboxes/tokens.ts";

export interface SignedRequest {
  readonly path: string;
  readonly operation: "read" | "write";
  readonly username: string;
  readonly signature: string;
  /** Unix seconds, as in the query. */
  readonly expiration: string | undefined;
}

export function computeSignature(request: Omit<SignedRequest, "signature">, token: string): string {
  const { path, operation, username, expiration } = request;
  const raw = [path, operation, username, token, ...(expiration === undefined ? [] : [expiration])].join(":");
  return `v1_${createHash("sha256").update(raw).digest("base64").replace(/=+$/, "")}`;
}

/** Throws 401. */
export function assertSignature(request: SignedRequest, token: string, now: Date): void {
  if (!equalTexts(computeSignature(request, token), request.signature))
    throw new ApiError(401, "invalid signature");
  if (request.expiration !== undefined && !(Number(request.expiration) >= Math.floor(now.getTime() / 1000)))
    throw new ApiError(401, "signature is already expired");
}
