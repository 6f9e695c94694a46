/** API keys of the gateway: their hashes are Secrets of the tenant's namespace, which name the ServiceAccount that a key acts as. */
import { createHash, randomBytes } from "node:crypto";
import { gatewayKey } from "@cocoon/contract";
import { Fault, ignoreFault, type Abortable } from "@cocoon/core";
import { resourceType, secrets, serviceAccounts, type KubeClient, type KubeObject } from "@cocoon/kube";

const account = "cocoon-sandbox";
/** Of deploy/gateway/rbac.yaml. */
const role = "cocoon-sandbox-user";
const prefix = "cocoon-apikey-";
const namePattern = /^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$/;

interface RoleBinding extends KubeObject {
  readonly roleRef: { readonly apiGroup: string; readonly kind: string; readonly name: string };
  readonly subjects: readonly { readonly kind: string; readonly name: string; readonly namespace: string }[];
}
const roleBindings = resourceType<RoleBinding>({
  group: "rbac.authorization.k8s.io",
  version: "v1",
  kind: "RoleBinding",
});

export interface ApiKey {
  readonly name: string;
  readonly namespace: string;
  readonly createdAt: string;
  /** Enough to know it again. */
  readonly mask: string;
}

interface KeyName {
  readonly namespace: string;
  readonly name: string;
}

/** Makes a key; the only time that it can be read. The ServiceAccount and its rights are made with the first one. */
export async function createApiKey(
  client: KubeClient,
  { namespace, name }: KeyName,
  options: Abortable,
): Promise<string> {
  if (!namePattern.test(name))
    throw new Fault(
      "badRequest",
      `"${name}" is not a name of a key: lower-case letters, digits and -, at most 40`,
    );
  await ensureAccount(client, namespace, options);
  const key = `e2b_${randomBytes(20).toString("hex")}`;
  const encode = (text: string) => Buffer.from(text).toString("base64");
  const hash = createHash("sha256").update(key).digest("hex");
  const data = {
    hash: encode(hash),
    mask: encode(`${key.slice(0, 8)}...${key.slice(-4)}`),
    serviceAccount: encode(account),
  };
  const labels = { [gatewayKey.apiKey]: "true", [gatewayKey.apiKeyHash]: hash.slice(0, 40) };
  const metadata = { namespace, name: `${prefix}${name}`, labels };
  await client.create(secrets, { metadata, data }, options);
  return key;
}

async function ensureAccount(client: KubeClient, namespace: string, options: Abortable): Promise<void> {
  const metadata = { namespace, name: account };
  await ignoreFault("alreadyExists", client.create(serviceAccounts, { metadata }, options));
  const binding: RoleBinding = {
    metadata,
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: role },
    subjects: [{ kind: "ServiceAccount", name: account, namespace }],
  };
  await ignoreFault("alreadyExists", client.create(roleBindings, binding, options));
}

export async function listApiKeys(
  client: KubeClient,
  namespace: string,
  options: Abortable,
): Promise<ApiKey[]> {
  const { items } = await client.list(secrets, {
    namespace,
    labelSelector: `${gatewayKey.apiKey}=true`,
    ...options,
  });
  return items.map(({ metadata, data }) => ({
    name: (metadata.name ?? "").slice(prefix.length),
    namespace: metadata.namespace ?? "",
    createdAt: metadata.creationTimestamp ?? "",
    mask: Buffer.from(data?.["mask"] ?? "", "base64").toString("utf8"),
  }));
}

/** Takes effect at once in every replica of the gateway. */
export async function revokeApiKey(
  client: KubeClient,
  { namespace, name }: KeyName,
  options: Abortable,
): Promise<void> {
  await client.delete(secrets, { namespace, name: `${prefix}${name}` }, options);
}
