/** A webhook in this process, asked over HTTPS as an API server asks; its caches are those of a real API server. */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { Agent, request } from "node:https";
import { systemNamespace } from "@cocoon/contract";
import { createRegistry, type Registry } from "@cocoon/core";
import { openKubeClient, type KubeConnection } from "@cocoon/kube";
import { selfSignedCertificates } from "@cocoon/kube/certificates";
import { sharedControlPlane, type TestCluster } from "@cocoon/testkit";
import { noSnapshots, startWebhook, type WebhookOptions, type WebhookRules } from "@cocoon/webhook";
import { installCrds } from "../contract/install-crds.ts";
import { testLog } from "./log.ts";

const signal = new AbortController().signal;

export interface Answer {
  readonly status: number;
  readonly text: string;
}

export interface Response {
  readonly uid: string;
  readonly allowed: boolean;
  readonly status?: { readonly message: string; readonly reason: string; readonly code: number };
  readonly warnings?: readonly string[];
  readonly patch?: string;
}

export interface Border extends AsyncDisposable {
  readonly cluster: TestCluster;
  readonly client: KubeConnection;
  readonly metrics: Registry;
  readonly port: number;
  send(path: string, body: string | Buffer, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  /** A review with these fields in its request; its response. */
  ask(path: string, fields: object): Promise<Response>;
  /** How often a result was counted. */
  counted(handler: string, result: string, reason: string): Promise<number>;
}

export const plainRules: WebhookRules = {
  mode: "sticky",
  creators: ["system:serviceaccount:cocoon-system:cocoon-operator"],
  pin: "auto",
  onFailure: "refuse",
  keepOff: false,
  guardDeletion: true,
};

export interface BorderOptions {
  /** Instead of the one that all files share, and write to at the same time. */
  readonly cluster?: TestCluster;
  readonly rules?: Partial<WebhookRules>;
  readonly wrapClient?: (client: KubeConnection) => KubeConnection;
  readonly options?: Partial<WebhookOptions>;
}

export async function openBorder(options: BorderOptions = {}): Promise<Border> {
  const cluster = options.cluster ?? (await sharedControlPlane());
  await using stack = new AsyncDisposableStack();
  await installCrds(cluster);
  const made = await cluster.kubectl(["create", "namespace", systemNamespace]);
  assert.ok(made.code === 0 || made.stderr.includes("AlreadyExists"), made.stderr);
  const metrics = createRegistry("test");
  const client = stack.use(
    await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal, registry: metrics }),
  );
  const certificates = await selfSignedCertificates({ host: "localhost", ip: "127.0.0.1" });
  const webhook = stack.use(
    await startWebhook({
      client: options.wrapClient?.(client) ?? client,
      certificates,
      listen: { host: "127.0.0.1", port: 0 },
      rules: { ...plainRules, ...options.rules },
      reaper: { intervalMs: 600_000, goneMs: 1_800_000, unboundMs: 600_000 },
      snapshots: noSnapshots,
      replica: `border-${process.pid}`,
      lameDuckMs: 0,
      metrics,
      log: testLog,
      signal,
      ...options.options,
    }),
  );
  const agent = new Agent({ keepAlive: true, rejectUnauthorized: false, maxSockets: 32 });
  stack.defer(() => agent.destroy());
  const { port } = webhook.server;
  const send: Border["send"] = (path, body, headers = {}) => post({ port, path, body, headers, agent });
  const owned = stack.move();
  return {
    cluster,
    client,
    metrics,
    port,
    send,
    ask: async (path, fields) => {
      const uid = randomUUID();
      const review = {
        apiVersion: "admission.k8s.io/v1",
        kind: "AdmissionReview",
        request: { uid, userInfo: { username: "alice" }, operation: "CREATE", ...fields },
      };
      const { status, text } = await send(path, JSON.stringify(review));
      assert.equal(status, 200, text);
      const { response } = JSON.parse(text) as { response: Response };
      return response;
    },
    counted: async (handler, result, reason) => {
      const metric = await metrics.getSingleMetric("cocoon_webhook_admission_total")?.get();
      const found = metric?.values.find(
        ({ labels }) =>
          labels["handler"] === handler && labels["result"] === result && labels["reason"] === reason,
      );
      return found?.value ?? 0;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

interface Post {
  readonly port: number;
  readonly path: string;
  readonly body: string | Buffer;
  readonly headers: Readonly<Record<string, string>>;
  readonly agent: Agent;
}

function post({ port, path, body, headers, agent }: Post): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const call = request(
      {
        host: "127.0.0.1",
        port,
        path,
        method: "POST",
        agent,
        headers: {
          "content-type": "application/json",
          "content-length": Buffer.byteLength(body),
          ...headers,
        },
      },
      (response) => {
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => parts.push(part));
        response.on("end", () =>
          resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString("utf8") }),
        );
        response.on("error", reject);
      },
    );
    call.setTimeout(30_000, () => call.destroy(new Error(`no answer from ${path} within 30 s`)));
    call.on("error", reject);
    call.end(body);
  });
}

/** The same client, but for some of its methods. */
export function withMethods(client: KubeConnection, methods: Partial<KubeConnection>): KubeConnection {
  return new Proxy(client, {
    get(target, key) {
      const own: unknown = Reflect.get(methods, key) ?? Reflect.get(target, key);
      // Private members are those of the client itself.
      return typeof own === "function" ? (own.bind(target) as unknown) : own;
    },
  });
}
