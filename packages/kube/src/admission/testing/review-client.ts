/** What tests of the admission server share: reviews as an API server writes them, and a plain HTTPS client. */
import https from "node:https";
import { silentLogger } from "@cocoon/core";
import { selfSignedCertificates, type ServingCertificates } from "../../certificates/index.ts";
import {
  startAdmissionServer,
  type AdmissionEndpoint,
  type AdmissionServer,
  type AdmissionServerOptions,
} from "../index.ts";

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
}

export interface Sending {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
}

export interface TestClient extends Disposable {
  send(path: string, sending?: Sending): Promise<Answer>;
  /** Posts a review and gives the parsed answer. */
  review(path: string, review: unknown): Promise<{ readonly response: Record<string, unknown> }>;
}

/** Trusts any certificate: what is served is tested elsewhere. */
export function testClient(url: string, options: https.AgentOptions = {}): TestClient {
  const agent = new https.Agent({ keepAlive: true, rejectUnauthorized: false, ...options });
  const json = { "content-type": "application/json" };
  const send = (
    path: string,
    { method = "POST", headers = json, body = "" }: Sending = {},
  ): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const length = { "content-length": String(Buffer.byteLength(body)) };
      const sent = https.request(
        `${url}${path}`,
        { method, agent, headers: { ...length, ...headers } },
        (response) => {
          let text = "";
          response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
          response.on("error", reject);
          response.on("end", () =>
            resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
          );
        },
      );
      sent.on("error", reject);
      sent.end(body);
    });
  return {
    send,
    review: async (path, review) => {
      const answer = await send(path, { body: JSON.stringify(review) });
      if (answer.status !== 200) throw new Error(`HTTP ${answer.status}: ${answer.text}`);
      return JSON.parse(answer.text) as { response: Record<string, unknown> };
    },
    [Symbol.dispose]: () => agent.destroy(),
  };
}

/** A CREATE of a small pod, with the given fields of the request instead. */
export function podReview(
  request: Readonly<Record<string, unknown>> = {},
  version = "v1",
): Record<string, unknown> {
  return {
    kind: "AdmissionReview",
    apiVersion: `admission.k8s.io/${version}`,
    request: {
      uid: "705ab4f5-6393-11e8-b7cc-42010a800002",
      kind: { group: "", version: "v1", kind: "Pod" },
      resource: { group: "", version: "v1", resource: "pods" },
      requestKind: { group: "", version: "v1", kind: "Pod" },
      requestResource: { group: "", version: "v1", resource: "pods" },
      name: "demo",
      namespace: "lab",
      operation: "CREATE",
      userInfo: { username: "alice", groups: ["system:authenticated"] },
      object: { apiVersion: "v1", kind: "Pod", metadata: { name: "demo", namespace: "lab" }, spec: {} },
      oldObject: null,
      dryRun: false,
      options: { kind: "CreateOptions", apiVersion: "meta.k8s.io/v1" },
      ...request,
    },
  };
}

let certificates: Promise<ServingCertificates> | undefined;

export type TestServerOptions = Partial<AdmissionServerOptions> & {
  readonly endpoints: Readonly<Record<string, AdmissionEndpoint>>;
};

export async function startTestServer(options: TestServerOptions): Promise<AdmissionServer> {
  certificates ??= selfSignedCertificates({ host: "localhost" });
  return startAdmissionServer({
    host: "127.0.0.1",
    port: 0,
    certificates: await certificates,
    log: silentLogger,
    lameDuckMs: 0,
    drainMs: 1_000,
    ...options,
  });
}
