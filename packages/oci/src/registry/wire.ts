/** One HTTP exchange with a registry, and what its answers mean in our words. */
import { Fault, type FaultCode, tryParseJson } from "@cocoon/core";
import * as z from "zod";

type Method = "GET" | "HEAD" | "PUT" | "POST" | "PATCH" | "DELETE";

/** A body that can be sent again from the start. */
export type RequestBody = Uint8Array | { readonly size: number; open(): AsyncIterable<Uint8Array> };

export interface WireRequest {
  readonly method: Method;
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: RequestBody;
  /** Token scopes that the operation needs, such as `repository:name:pull`. */
  readonly scopes: readonly string[];
  /**
   * Whether the same request may be sent twice when it is unknown whether the first one arrived. A request that is not
   * repeatable is sent again only when it surely did nothing.
   */
  readonly repeatable: boolean;
}

export interface WireResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  /** Where the answer came from, after redirects: relative locations are relative to this. */
  readonly url: URL;
  readonly body: AsyncIterable<Uint8Array> & { dump(): Promise<void>; destroy(): unknown };
}

export function getHeader(response: Pick<WireResponse, "headers">, name: string): string | undefined {
  const value = response.headers[name];
  return Array.isArray(value) ? value.join(", ") : value;
}

/** The whole body, refused when it is longer than the limit. */
export async function readBody(response: WireResponse, limitBytes: number): Promise<Buffer> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of response.body) {
    size += piece.length;
    if (size > limitBytes)
      throw new Fault("tooLarge", `${response.url.pathname}: the answer is longer than ${limitBytes} bytes`);
    pieces.push(piece);
  }
  return Buffer.concat(pieces, size);
}

const errorBody = z.object({
  errors: z
    .array(z.object({ code: z.string().max(64), message: z.string().optional() }))
    .min(1)
    .max(100),
});

const quotedBytes = 512;
const errorBodyBytes = 64 * 1024;

const codes: Readonly<Record<number, FaultCode>> = {
  400: "badRequest",
  401: "unauthorized",
  403: "forbidden",
  404: "notFound",
  405: "methodNotAllowed",
  408: "timeout",
  409: "conflict",
  413: "tooLarge",
  415: "unsupportedMediaType",
  416: "rangeNotSatisfiable",
  429: "tooManyRequests",
  501: "notSupported",
  504: "timeout",
  507: "outOfSpace",
};

/** Turns an answer that is not the hoped-for one into a Fault; reads its body. */
export async function readFault(response: WireResponse, what: string): Promise<Fault> {
  return (await readError(response, what)).fault;
}

/** The Fault, and the codes of the specification that the body carries; none when it is not such a body. */
export async function readError(
  response: WireResponse,
  what: string,
): Promise<{ readonly fault: Fault; readonly ociCodes: readonly string[] }> {
  const code = codes[response.status] ?? (response.status >= 500 ? "unavailable" : "internal");
  const { text, ociCodes } = await tryReadError(response);
  const retryAfterMs = retryAfter(response);
  const message = `${what}: registry answered ${response.status}${text && `: ${text}`}`;
  const fault = new Fault(code, message, retryAfterMs === undefined ? {} : { retryAfterMs });
  return { fault, ociCodes };
}

async function tryReadError(
  response: WireResponse,
): Promise<{ readonly text: string; readonly ociCodes: readonly string[] }> {
  let text: string;
  try {
    text = (await readBody(response, errorBodyBytes)).toString("utf8");
  } catch {
    return { text: "", ociCodes: [] }; // the status alone has to do
  }
  const parsed = errorBody.safeParse(tryParseJson(text));
  const errors = parsed.success ? parsed.data.errors : [];
  const readable = parsed.success
    ? errors.map((each) => [each.code, each.message].filter(Boolean).join(" ")).join("; ")
    : text;
  return {
    text: readable.slice(0, quotedBytes).replaceAll(/\s+/g, " ").trim(),
    ociCodes: errors.map((each) => each.code),
  };
}

/** `Retry-After` in seconds or as a date. */
export function retryAfter(
  response: Pick<WireResponse, "headers">,
  now: number = Date.now(),
): number | undefined {
  const text = getHeader(response, "retry-after");
  if (text === undefined) return undefined;
  const ms = /^\d+$/.test(text) ? Number(text) * 1000 : Date.parse(text) - now;
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}
