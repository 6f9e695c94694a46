/** The two ways in which a test registry may ask who is there. */
import type { IncomingMessage, ServerResponse } from "node:http";

export type FakeAuth =
  | { readonly kind: "basic"; readonly username: string; readonly password: string }
  | {
      readonly kind: "token";
      readonly username: string;
      readonly password: string;
      /** Identity token that may be traded as well. */
      readonly refreshToken?: string;
      readonly lifetimeS?: number;
      /** Tokens given out so far, with their scopes; tests count them and may forget them. */
      readonly issued: Map<string, readonly string[]>;
    };

export interface AuthCall {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: URL;
}

/** Whether the request may pass; answers 401 with a challenge when not. */
export function authorize(auth: FakeAuth, call: AuthCall): boolean {
  const header = call.request.headers.authorization ?? "";
  if (auth.kind === "basic") {
    if (header === basicHeader(auth)) return true;
    call.response.writeHead(401, { "www-authenticate": 'Basic realm="test"' }).end();
    return false;
  }
  const scope = neededScope(call);
  const granted = auth.issued.get(header.replace(/^Bearer /, ""));
  if (granted && (scope === undefined || covers(granted, scope))) return true;
  const realm = `http://${call.request.headers.host}/token`;
  const parameters = [`realm="${realm}"`, 'service="memory"', ...(scope ? [`scope="${scope}"`] : [])];
  call.response.writeHead(401, { "www-authenticate": `Bearer ${parameters.join(",")}` }).end();
  return false;
}

function neededScope({ request, url }: AuthCall): string | undefined {
  const name = /^\/v2\/(.+)\/(?:manifests|blobs|tags|referrers)\//.exec(url.pathname)?.[1];
  if (name === undefined) return undefined;
  const action = { GET: "pull", HEAD: "pull", DELETE: "delete" }[request.method ?? ""] ?? "pull,push";
  return `repository:${name}:${/\/uploads\//.test(url.pathname) ? "pull,push" : action}`;
}

function covers(granted: readonly string[], scope: string): boolean {
  const cut = scope.lastIndexOf(":");
  const match = granted.find((each) => each.slice(0, each.lastIndexOf(":")) === scope.slice(0, cut));
  const actions = new Set(match?.slice(match.lastIndexOf(":") + 1).split(","));
  return scope
    .slice(cut + 1)
    .split(",")
    .every((action) => actions.has(action));
}

export async function answerToken(auth: FakeAuth, { request, response, url }: AuthCall): Promise<void> {
  if (auth.kind !== "token") return;
  let body = "";
  for await (const piece of request as AsyncIterable<Buffer>) body += piece.toString();
  const form = new URLSearchParams(body);
  const byRefresh = auth.refreshToken !== undefined && form.get("refresh_token") === auth.refreshToken;
  if (!byRefresh && request.headers.authorization !== basicHeader(auth))
    return void response.writeHead(401).end("invalid credentials");
  const scopes = [...url.searchParams.getAll("scope"), ...(form.get("scope")?.split(" ") ?? [])];
  const token = `token-${auth.issued.size + 1}`;
  auth.issued.set(token, scopes);
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ token, expires_in: auth.lifetimeS ?? 300 }));
}

function basicHeader({ username, password }: { username: string; password: string }): string {
  return `Basic ${Buffer.from(`${username}:${password}`).toString("base64")}`;
}
