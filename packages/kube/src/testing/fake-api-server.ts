/** An HTTPS server in the place of an API server, for what a real one does not do on request. */
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { TLSSocket } from "node:tls";
import { join } from "node:path";
import { writeFile } from "node:fs/promises";
import { startHttpServer, type RunningServer } from "@cocoon/core";
import { temporaryDirectory, type TemporaryDirectory } from "@cocoon/testkit";
import { testAuthority, type TestAuthority } from "./test-certificates.ts";

export interface FakeApiServer extends AsyncDisposable {
  readonly url: string;
  readonly directory: string;
  readonly authority: TestAuthority;
  readonly server: RunningServer;
  /** Writes a kubeconfig for this server; what is given goes into its user and its cluster. */
  kubeconfig(parts?: KubeconfigParts): Promise<string>;
}

export interface KubeconfigParts {
  readonly user?: Readonly<Record<string, unknown>>;
  readonly cluster?: Readonly<Record<string, unknown>>;
}

export interface FakeOptions {
  /** Ask clients for a certificate; whether to accept it is the handler's business. */
  readonly requestCert?: boolean;
}

export async function startFakeApiServer(
  handler: RequestListener,
  { requestCert = false }: FakeOptions = {},
): Promise<FakeApiServer> {
  const directory: TemporaryDirectory = await temporaryDirectory();
  const authority = await testAuthority();
  const { cert, key } = await authority.issue("CN=server");
  const server = await startHttpServer({
    name: "fake API server",
    host: "127.0.0.1",
    port: 0,
    handler,
    drainMs: 0,
    tls: { cert, key, ca: authority.ca, requestCert, rejectUnauthorized: false },
  });
  const kubeconfig = async ({ user = { token: "t0ken" }, cluster = {} }: KubeconfigParts = {}) => {
    const path = join(directory.path, "kubeconfig");
    const data = Buffer.from(authority.ca).toString("base64");
    const config = {
      "current-context": "here",
      clusters: [
        { name: "fake", cluster: { server: server.url, "certificate-authority-data": data, ...cluster } },
      ],
      users: [{ name: "me", user }],
      contexts: [{ name: "here", context: { cluster: "fake", user: "me" } }],
    };
    await writeFile(path, JSON.stringify(config));
    return path;
  };
  return {
    url: server.url,
    directory: directory.path,
    authority,
    server,
    kubeconfig,
    [Symbol.asyncDispose]: async () => {
      await server.stop();
      await directory[Symbol.asyncDispose]();
    },
  };
}

export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}

/** As the API server says it. */
export function statusBody(
  code: number,
  reason: string,
  more: Readonly<Record<string, unknown>> = {},
): unknown {
  return {
    kind: "Status",
    apiVersion: "v1",
    status: "Failure",
    message: `${reason} it is`,
    reason,
    code,
    ...more,
  };
}

/** The name in the client's certificate; undefined when it sent none. */
export function clientName(request: IncomingMessage): string | undefined {
  const { subject } = (request.socket as TLSSocket).getPeerCertificate();
  return subject?.CN?.toString();
}

export async function readText(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += String(chunk);
  return text;
}
