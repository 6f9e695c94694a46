/** Webhook registrations for tests: by URL, and for one namespace alone, because the control plane is shared. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import {
  mutatingWebhookConfigurations,
  openKubeClient,
  validatingWebhookConfigurations,
  type KubeClient,
  type KubeConnection,
} from "@cocoon/kube";
import {
  mutatingWebhooks,
  secretStore,
  startBuiltInCertificates,
  validatingWebhooks,
  type BuiltInCertificates,
  type BuiltInOptions,
  type BundleTarget,
} from "@cocoon/kube/certificates";
import { createLogger, type Logger } from "@cocoon/core";
import { diffJson, type JsonPatchOperation } from "@cocoon/core/json-patch";
import type { TestCluster } from "@cocoon/testkit";

const types = { mutating: mutatingWebhookConfigurations, validating: validatingWebhookConfigurations };

export interface Registration extends AsyncDisposable {
  readonly name: string;
  readonly target: BundleTarget;
  readonly bundles: () => Promise<string[]>;
}

export interface RegistrationOptions {
  readonly client: KubeClient;
  readonly kind: "mutating" | "validating";
  readonly namespace: string;
  /** URL of each webhook, by name. */
  readonly urls: Readonly<Record<string, string>>;
  readonly resources?: readonly string[];
  readonly operations?: readonly string[];
  readonly timeoutSeconds?: number;
  readonly failurePolicy?: "Fail" | "Ignore";
}

const signal = new AbortController().signal;

/** Without a bundle: putting it there is what is tested. */
export async function register(options: RegistrationOptions): Promise<Registration> {
  const { client, kind, namespace, urls } = options;
  const name = `test-${randomBytes(5).toString("hex")}`;
  const webhooks = Object.entries(urls).map(([webhook, url]) => ({
    name: `${webhook}.example.com`,
    clientConfig: { url },
    admissionReviewVersions: ["v1", "v1beta1"],
    sideEffects: "None",
    failurePolicy: options.failurePolicy ?? "Fail",
    timeoutSeconds: options.timeoutSeconds ?? 10,
    namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": namespace } },
    rules: [
      {
        apiGroups: [""],
        apiVersions: ["v1"],
        operations: options.operations ?? ["CREATE", "UPDATE"],
        resources: options.resources ?? ["configmaps"],
        scope: "Namespaced",
      },
    ],
  }));
  await client.create(types[kind], { metadata: { name }, webhooks }, { signal });
  const read = async () => {
    const { webhooks = [] } = await client.get(types[kind], { name }, { signal });
    return webhooks.map(({ clientConfig }) => Buffer.from(clientConfig.caBundle ?? "", "base64").toString());
  };
  const target =
    kind === "mutating" ? mutatingWebhooks({ client, name }) : validatingWebhooks({ client, name });
  return {
    name,
    target,
    bundles: read,
    [Symbol.asyncDispose]: () => client.delete(types[kind], { name }, { signal }),
  };
}

export function openTestClient(cluster: TestCluster): Promise<KubeConnection> {
  return openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal, timeoutMs: 20_000 });
}

export interface CertificateOptions extends Partial<BuiltInOptions> {
  readonly client: KubeConnection;
  readonly namespace: string;
  readonly targets: readonly BundleTarget[];
}

/** Built-in certificates for 127.0.0.1 that look often. */
export function startCertificates(options: CertificateOptions): Promise<BuiltInCertificates> {
  const { client, namespace } = options;
  return startBuiltInCertificates(
    {
      store: secretStore({ client, key: { namespace, name: "webhook-certs" } }),
      names: { commonName: "test webhook", hosts: ["127.0.0.1"] },
      replica: `replica-${randomBytes(3).toString("hex")}`,
      log: testLog,
      connection: client,
      busySyncMs: 200,
      ...options,
      policy: { settleMs: 1_500, ...options.policy },
    },
    { signal },
  );
}

export const testLog: Logger = createLogger({
  name: "test",
  level: process.env["TEST_LOG_LEVEL"] ?? "error",
});

/** kubectl succeeded; its words when not. */
export function assertDone(result: { readonly code: number | null; readonly stderr: string }): void {
  assert.equal(result.code, 0, result.stderr);
}

/** The patch that adds labels to an object. */
export function labelPatch(object: unknown, labels: Readonly<Record<string, string>>): JsonPatchOperation[] {
  const { metadata } = object as { metadata: { labels?: Record<string, string> } };
  const labelled = { ...metadata, labels: { ...metadata.labels, ...labels } };
  return diffJson(object, { ...(object as object), metadata: labelled });
}
