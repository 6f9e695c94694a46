/** A replica without a cluster: the real HTTPS server and every rule, over objects that a test gives. */
import https from "node:https";
import { createRegistry, silentLogger } from "@cocoon/core";
import {
  startAdmissionServer,
  type AdmissionServer,
  type AdmissionServerOptions,
} from "@cocoon/kube/admission";
import { selfSignedCertificates, type ServingCertificates } from "@cocoon/kube/certificates";
import { readGates } from "../gates.ts";
import type { ElasticQuota } from "../kinds.ts";
import { podAdmission } from "../quota/pod-admission.ts";
import { colocationEndpoints, type RuleSettings } from "../server/endpoints.ts";
import { createColocationMetrics } from "../server/metrics.ts";
import { rateLimit, safety, type RateLimitOptions } from "../server/middleware.ts";
import { isLenient } from "../server/registration.ts";
import { koordinatorWire, maxBodyBytes } from "../server/wire.ts";
import type { ClusterView } from "../view.ts";
import {
  createFakeChangeStore,
  createFakeUsageStore,
  createFakeView,
  defaultPriorityClasses,
  withVersion,
  type ClusterObjects,
} from "./fake-cluster.ts";
import { buildReview, type Response } from "./reviews.ts";

export { defaultPriorityClasses, type ClusterObjects } from "./fake-cluster.ts";
export { buildReview, patched, type Response } from "./reviews.ts";

export interface TestWebhooksOptions extends ClusterObjects {
  readonly featureGates?: string;
  readonly settings?: Partial<RuleSettings>;
  readonly random?: () => number;
  readonly rateLimit?: Pick<RateLimitOptions, "perSecond" | "burst" | "nowMs">;
  readonly server?: Partial<AdmissionServerOptions>;
  readonly view?: Partial<ClusterView>;
}

export interface TestWebhooks extends AsyncDisposable {
  readonly server: AdmissionServer;
  readonly quotas: readonly ElasticQuota[];
  /** The whole answer to a whole review. */
  post(path: string, review: unknown): Promise<Record<string, unknown> & { response: Response }>;
  /** The answer to one request, whose fields are filled in. */
  ask(path: string, request: Readonly<Record<string, unknown>>): Promise<Response>;
  send(
    path: string,
    body: string | Buffer,
    headers?: Readonly<Record<string, string>>,
  ): Promise<{ status: number; text: string; headers: Readonly<Record<string, unknown>> }>;
  metrics(): Promise<string>;
}

let certificates: Promise<ServingCertificates> | undefined;

export async function startTestWebhooks(options: TestWebhooksOptions = {}): Promise<TestWebhooks> {
  certificates ??= selfSignedCertificates({ host: "localhost" });
  const registry = createRegistry("cocoon-colocation");
  const metrics = createColocationMetrics(registry);
  const world = { priorityClasses: defaultPriorityClasses, ...options };
  const stored = [...(world.quotas ?? [])].map(withVersion);
  const settings = ruleSettings(options);
  const view = { ...createFakeView(world, stored), ...options.view };
  const server = await startAdmissionServer({
    host: "127.0.0.1",
    port: 0,
    certificates: await certificates,
    endpoints: colocationEndpoints({
      settings,
      view,
      metrics,
      log: silentLogger,
      changeStore: createFakeChangeStore(stored),
      admission: podAdmission({
        view,
        store: createFakeUsageStore(stored, world.pods ?? []),
        maxWaitMs: 200,
      }),
      ...(options.random ? { random: options.random } : {}),
    }),
    middleware: [
      metrics.inFlight,
      safety({ isLenient, failed: metrics.failed }),
      rateLimit({ perSecond: 0, burst: 0, ...options.rateLimit, isLenient, limited: metrics.limited }),
    ],
    limits: { bodyBytes: maxBodyBytes - 1 },
    wire: koordinatorWire,
    registry,
    observe: metrics.observe,
    lameDuckMs: 0,
    drainMs: 1_000,
    ...options.server,
  });
  return createTestClient(server, stored, () => registry.metrics());
}

function ruleSettings({ featureGates = "", settings = {} }: TestWebhooksOptions): RuleSettings {
  return {
    gates: readGates(featureGates).gates,
    warnRules: [],
    configNamespace: "koordinator-system",
    sloConfigName: "slo-controller-config",
    sloNamesNeeded: false,
    maxAmplificationRatio: undefined,
    enhanced: { namespace: "koordinator-system", name: "pod-enhanced-validator-config" },
    binding: {
      users: [],
      dryRun: false,
      namespaces: [],
      excludedNamespaces: ["kube-system"],
      bypassLabels: ["koordinator.sh/binding-admission-bypass"],
      bypassAnnotations: [],
    },
    ...settings,
  };
}

function createTestClient(
  server: AdmissionServer,
  quotas: readonly ElasticQuota[],
  metrics: () => Promise<string>,
): TestWebhooks {
  const agent = new https.Agent({ keepAlive: true, rejectUnauthorized: false });
  const send: TestWebhooks["send"] = (path, body, headers = { "content-type": "application/json" }) =>
    new Promise((resolve, reject) => {
      const length = { "content-length": String(Buffer.byteLength(body)) };
      const sent = https.request(
        `${server.url}${path}`,
        { method: "POST", agent, headers: { ...length, ...headers } },
        (response) => {
          let text = "";
          response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
          response.on("error", reject);
          response.on("end", () =>
            resolve({ status: response.statusCode ?? 0, text, headers: response.headers }),
          );
        },
      );
      sent.on("error", reject);
      sent.end(body);
    });
  const post: TestWebhooks["post"] = async (path, review) => {
    const { status, text } = await send(path, JSON.stringify(review));
    if (status !== 200) throw new Error(`HTTP ${status}: ${text}`);
    return JSON.parse(text) as Record<string, unknown> & { response: Response };
  };
  return {
    server,
    quotas,
    post,
    send,
    metrics,
    ask: async (path, request) => (await post(path, buildReview(path, request))).response,
    [Symbol.asyncDispose]: async () => {
      agent.destroy();
      await server.stop();
    },
  };
}
