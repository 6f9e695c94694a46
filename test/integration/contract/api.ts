/** Bare calls to the API server of a test cluster: what is tested here is the server's own answer. */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import type { TestCluster } from "@cocoon/testkit";
import { parse } from "yaml";

export interface Answer {
  readonly status: number;
  /** Why the server refused; empty when it did not. */
  readonly message: string;
  readonly body: {
    readonly metadata?: { readonly name?: string; readonly resourceVersion?: string };
    readonly spec?: unknown;
    readonly status?: unknown;
    readonly [member: string]: unknown;
  };
}

interface Call {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly path: string;
  readonly body?: unknown;
  readonly contentType?: string;
}

export interface Api extends Disposable {
  call(call: Call): Promise<Answer>;
}

interface Kubeconfig {
  readonly clusters: readonly { readonly cluster: { readonly "certificate-authority-data": string } }[];
  readonly users: readonly {
    readonly user: { readonly "client-certificate-data": string; readonly "client-key-data": string };
  }[];
}

export function openApi(cluster: TestCluster): Api {
  const config = parse(cluster.kubeconfig) as Kubeconfig;
  const user = config.users[0]?.user;
  const decode = (text: string | undefined) => Buffer.from(text ?? "", "base64");
  const agent = new Agent({
    keepAlive: true,
    maxSockets: 8,
    ca: decode(config.clusters[0]?.cluster["certificate-authority-data"]),
    cert: decode(user?.["client-certificate-data"]),
    key: decode(user?.["client-key-data"]),
  });
  return {
    call: (call) => send(agent, cluster.server, call),
    [Symbol.dispose]: () => agent.destroy(),
  };
}

async function send(agent: Agent, server: string, call: Call): Promise<Answer> {
  const outgoing = request(`${server}${call.path}`, {
    agent,
    method: call.method,
    headers: { "content-type": call.contentType ?? "application/json", accept: "application/json" },
    timeout: 60_000,
  });
  outgoing.end(call.body === undefined ? undefined : JSON.stringify(call.body));
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  response.setEncoding("utf8");
  let text = "";
  for await (const part of response) text += String(part);
  const body = JSON.parse(text) as Answer["body"];
  return {
    status: response.statusCode ?? 0,
    message: typeof body["message"] === "string" ? body["message"] : "",
    body,
  };
}
