/** `Idempotency-Key` of a create: the same key is the same sandbox. */
import { createHash } from "node:crypto";
import { ApiError } from "../http/answer.ts";
import type { Tenant } from "../tenants/tenant.ts";
import type { Call } from "./router.ts";

export interface Idempotency {
  readonly key: string;
  /** Hash of the body. */
  readonly body: string;
}

export function tryReadIdempotency({
  request,
  body,
}: Pick<Call, "request" | "body">): Idempotency | undefined {
  const key = request.headers["idempotency-key"];
  if (typeof key !== "string") return undefined;
  if (!/^[A-Za-z0-9-]{1,255}$/.test(key))
    throw new ApiError(400, "Idempotency-Key: 1 to 255 of letters, digits and -");
  return {
    key,
    body: createHash("sha256")
      .update(JSON.stringify(body ?? {}))
      .digest("hex"),
  };
}

/** The same key is the same set, whichever replica it reaches: the API server lets only one of them create it. */
export function deriveId({ namespace }: Pick<Tenant, "namespace">, key: string): string {
  const digest = createHash("sha256").update(`${namespace}\0${key}`).digest("hex");
  return `i${digest.slice(0, 20)}`;
}
