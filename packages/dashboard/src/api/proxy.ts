/** Passes requests of the page on to the API server, with the credentials of the signed-in user. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { Fault } from "@cocoon/core";
import type { SignedIn } from "../auth/session-cookies.ts";
import { readBody } from "../http/answers.ts";
import { classifyRequest } from "./allowed-requests.ts";
import type { Upstream } from "./upstream.ts";

export interface ProxyOptions {
  readonly upstream: Upstream;
  readonly readOnly: boolean;
  readonly signal: AbortSignal;
}

const maxBodyBytes = 1024 * 1024;
const contentTypes = new Set([
  "application/json",
  "application/yaml",
  "application/merge-patch+json",
  "application/apply-patch+yaml",
]);

export async function passOn(
  {
    request,
    response,
    path,
  }: { readonly request: IncomingMessage; readonly response: ServerResponse; readonly path: string },
  { token }: SignedIn,
  { upstream, readOnly, signal }: ProxyOptions,
): Promise<void> {
  const method = request.method ?? "GET";
  const [plain = ""] = path.split("?");
  const kind = classifyRequest(method, plain);
  if (kind === undefined)
    throw new Fault("notFound", `the dashboard does not pass on ${method} ${plain.slice(0, 200)}`);
  if (kind === "change" && readOnly) throw new Fault("forbidden", "this dashboard is read-only");
  const closed = new AbortController();
  response.once("close", () => closed.abort());
  const answer = await upstream.send({
    method,
    path,
    token,
    contentType: readContentType(request),
    accept: plain.endsWith("/log") ? "*/*" : "application/json",
    body: method === "GET" ? undefined : await readBody(request, maxBodyBytes),
    signal: AbortSignal.any([signal, closed.signal]),
  });
  // Never the type that the server names: a log that calls itself a page must stay text.
  const isLog = plain.endsWith("/log") && answer.statusCode === 200;
  response.writeHead(answer.statusCode ?? 502, {
    "content-type": isLog ? "text/plain; charset=utf-8" : "application/json; charset=utf-8",
    "cache-control": "no-store",
  });
  response.flushHeaders();
  await pipeline(answer, response);
}

function readContentType(request: IncomingMessage): string | undefined {
  const type = request.headers["content-type"]?.split(";")[0]?.trim();
  if (type === undefined) return undefined;
  if (!contentTypes.has(type))
    throw new Fault("unsupportedMediaType", `content-type ${type.slice(0, 60)} is not passed on`);
  return type;
}
