/** How reviews are spelled on the wire. There is one usual way; a server that stands in for another may need its. */
import { Fault } from "@cocoon/core";
import type { IncomingMessage } from "node:http";
import { readReview, type Review } from "./read-review.ts";
import type { Verdict } from "./verdict.ts";
import { writeReview } from "./write-review.ts";

export interface ReviewWire {
  /** Throws what is wrong with method and headers. */
  checkHeaders(request: Pick<IncomingMessage, "method" | "headers">): void;
  read(body: Buffer, limits: { readonly maxDepth: number }): Review;
  /** The text must be ASCII. */
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
