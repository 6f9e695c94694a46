/** HTTP requests whose every hop, redirects included, goes where the policy allows. */
import { request as requestTls } from "node:https";
import type { IncomingMessage, RequestOptions } from "node:http";
import { Readable } from "node:stream";
import { Fault, nodeHttp, type Abortable } from "@cocoon/core";
import { assertHostAllowed, guardedLookup, type ImagePolicy } from "../image-policy.ts";

export interface GuardedRequest extends Abortable {
  readonly headers: Readonly<Record<string, string>>;
  readonly method: string;
  readonly policy?: ImagePolicy;
}

const maxRedirects = 5;
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const withoutBody: ReadonlySet<number> = new Set([204, 304]);

/** The answer of the last hop. `forbidden` when a hop leads where the policy does not allow. */
export async function sendGuarded(address: string, request: GuardedRequest): Promise<Response> {
  let url = new URL(address);
  for (let hop = 0; hop <= maxRedirects; hop += 1) {
    if (url.protocol !== "http:" && url.protocol !== "https:")
      throw new Fault("forbidden", `${address} leads to ${url.protocol}, which is not fetched`);
    assertHostAllowed(url, request.policy);
    const message = await send(url, request);
    const location = message.headers.location;
    if (!redirects.has(message.statusCode ?? 0) || location === undefined) return asResponse(message);
    message.destroy();
    url = new URL(location, url);
  }
  throw new Fault("unavailable", `${address} was redirected more than ${maxRedirects} times`);
}

function send(url: URL, { headers, method, signal, policy }: GuardedRequest): Promise<IncomingMessage> {
  const options: RequestOptions = { headers, method, signal, lookup: guardedLookup(policy), agent: false };
  const open = url.protocol === "https:" ? requestTls : nodeHttp.request;
  return new Promise((resolve, reject) => {
    open(url, options).once("response", resolve).once("error", reject).end();
  });
}

function asResponse(message: IncomingMessage): Response {
  const status = message.statusCode ?? 0;
  const headers = new Headers();
  for (const [name, value] of Object.entries(message.headersDistinct))
    for (const each of value ?? []) headers.append(name, each);
  if (withoutBody.has(status)) message.resume();
  const body = withoutBody.has(status) ? null : (Readable.toWeb(message) as ReadableStream<Uint8Array>);
  return new Response(body, { status, headers });
}
