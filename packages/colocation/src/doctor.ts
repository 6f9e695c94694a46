/** The usual checks of an installation, for `cocoonctl doctor`: each says what was found and what to do about it. */
import { connect } from "node:tls";
import { X509Certificate } from "node:crypto";
import { messageOf, withDeadline, type Abortable } from "@cocoon/core";
import {
  mutatingWebhookConfigurations,
  secrets,
  validatingWebhookConfigurations,
  type KubeClient,
  type WebhookConfiguration,
} from "@cocoon/kube";

export interface ColocationCheck {
  readonly name: string;
  readonly state: "ok" | "warning" | "problem";
  readonly found: string;
  readonly fix?: string;
}

export interface DoctorOptions extends Abortable {
  readonly client: KubeClient;
  /** Namespace of the Service and the Secret. */
  readonly namespace: string;
  readonly secretNames?: readonly string[];
  readonly configurationNames?: { readonly mutating: string; readonly validating: string };
  /** Text of a replica's metrics page, where the caller can reach it. */
  readonly metrics?: string;
}

const warnDays = 21;
const probeMs = 5_000;
const slowSeconds = 1;

/** Never rejects: what cannot be asked is a problem that is told. */
export async function checkColocation(options: DoctorOptions): Promise<ColocationCheck[]> {
  const names = options.configurationNames ?? {
    mutating: "cocoon-colocation-mutating",
    validating: "cocoon-colocation-validating",
  };
  const configurations = await Promise.all([
    tryGet(() => options.client.get(mutatingWebhookConfigurations, { name: names.mutating }, options)),
    tryGet(() => options.client.get(validatingWebhookConfigurations, { name: names.validating }, options)),
  ]);
  const webhooks = configurations.flatMap((each) => each.value?.webhooks ?? []);
  return [
    present(configurations, names),
    await certificate(options, webhooks),
    await servedMatches(webhooks),
    await reachable(options),
    latency(options.metrics),
  ];
}

interface Tried<T> {
  readonly value?: T;
  readonly trouble?: string;
}

async function tryGet<T>(get: () => Promise<T>): Promise<Tried<T>> {
  try {
    return { value: await get() };
  } catch (error) {
    return { trouble: messageOf(error) };
  }
}

function present(
  found: readonly Tried<WebhookConfiguration>[],
  names: { readonly mutating: string; readonly validating: string },
): ColocationCheck {
  const missing = [names.mutating, names.validating].filter(
    (_name, index) => !found[index]?.value?.webhooks?.length,
  );
  const name = "colocation configuration";
  if (missing.length > 0)
    return {
      name,
      state: "problem",
      found:
        `${missing.join(" and ")} missing or empty: ${found.map((each) => each.trouble ?? "").join(" ")}`.trim(),
      fix: "start cocoon-colocation; it writes them once it is ready",
    };
  return {
    name,
    state: "ok",
    found: `${found.flatMap((each) => each.value?.webhooks ?? []).length} webhooks registered`,
  };
}

type Webhook = NonNullable<WebhookConfiguration["webhooks"]>[number];

/** The Secret's certificate: signed by what the API server trusts, for the right name, for long enough. */
async function certificate(options: DoctorOptions, webhooks: readonly Webhook[]): Promise<ColocationCheck> {
  const name = "colocation certificate";
  const secretNames = options.secretNames ?? ["koordinator-webhook-certs", "webhook-tls"];
  const { namespace } = options;
  for (const secretName of secretNames) {
    const { value: secret } = await tryGet(() =>
      options.client.get(secrets, { namespace, name: secretName }, options),
    );
    const pem = secret?.data?.["tls.crt"];
    if (!pem) continue;
    return judgeCertificate(new X509Certificate(Buffer.from(pem, "base64")), webhooks);
  }
  return {
    name,
    state: "problem",
    found: `none of the Secrets ${secretNames.join(", ")} in ${namespace} holds a certificate`,
    fix: "start cocoon-colocation; it makes one",
  };
}

function judgeCertificate(leaf: X509Certificate, webhooks: readonly Webhook[]): ColocationCheck {
  const name = "colocation certificate";
  const days = Math.floor((Date.parse(leaf.validTo) - Date.now()) / 86_400_000);
  const untrusted = webhooks.filter(({ clientConfig }) => !trusts(clientConfig.caBundle, leaf));
  if (untrusted.length > 0)
    return {
      name,
      state: "problem",
      found: `the caBundle of ${untrusted.map((each) => each.name).join(", ")} does not match the served certificate`,
      fix: "look at the log of cocoon-colocation: it writes the bundle within a minute",
    };
  const wrong = webhooks.filter(
    ({ clientConfig }) => !leaf.checkHost(hostOf(clientConfig)) && !leaf.checkIP(hostOf(clientConfig)),
  );
  if (wrong.length > 0)
    return {
      name,
      state: "problem",
      found: `the certificate is not for ${hostOf(wrong[0]?.clientConfig ?? {})} (${leaf.subjectAltName ?? "no names"})`,
      fix: "set SERVICE_NAME and POD_NAMESPACE as the Service has them",
    };
  if (days < warnDays)
    return {
      name,
      state: "warning",
      found: `${days} days left`,
      fix: "is a replica running? it renews in time",
    };
  return { name, state: "ok", found: `matches its caBundle and names, ${days} days left` };
}

function trusts(caBundle: string | undefined, leaf: X509Certificate): boolean {
  const pem = Buffer.from(caBundle ?? "", "base64").toString("utf8");
  const authorities = pem.match(/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g) ?? [];
  return authorities.some((each) => {
    try {
      return leaf.checkIssued(new X509Certificate(each)) && leaf.verify(new X509Certificate(each).publicKey);
    } catch {
      return false;
    }
  });
}

function hostOf({ url, service }: Webhook["clientConfig"]): string {
  if (url) return new URL(url).hostname;
  return service ? `${service.name}.${service.namespace}.svc` : "";
}

/** By URL we can look for ourselves; a Service is only reachable from inside. */
async function servedMatches(webhooks: readonly Webhook[]): Promise<ColocationCheck> {
  const name = "colocation server";
  const url = webhooks.find(({ clientConfig }) => clientConfig.url)?.clientConfig.url;
  if (!url) return { name, state: "ok", found: "called through its Service; see the dry run below" };
  const { hostname, port } = new URL(url);
  const trouble = await handshake(hostname, Number(port || 443), webhooks[0]?.clientConfig.caBundle);
  if (trouble !== undefined)
    return {
      name,
      state: "problem",
      found: `${hostname}:${port}: ${trouble}`,
      fix: "is cocoon-colocation running?",
    };
  return { name, state: "ok", found: `${hostname}:${port} serves a certificate that the API server trusts` };
}

function handshake(host: string, port: number, caBundle: string | undefined): Promise<string | undefined> {
  return new Promise((resolve) => {
    const ca = Buffer.from(caBundle ?? "", "base64").toString("utf8");
    const socket = connect({ host, port, ca, timeout: probeMs }, () => {
      socket.end();
      resolve(undefined);
    });
    socket.on("timeout", () => socket.destroy(new Error("no answer")));
    socket.on("error", (error) => resolve(messageOf(error)));
  });
}

/** A pod that is never made: it goes through both pod webhooks. */
async function reachable({ client, signal }: DoctorOptions): Promise<ColocationCheck> {
  const name = "colocation dry run";
  try {
    await client.raw({
      method: "POST",
      path: "/api/v1/namespaces/default/pods?dryRun=All",
      body: {
        apiVersion: "v1",
        kind: "Pod",
        metadata: { generateName: "colocation-doctor-" },
        spec: { containers: [{ name: "c", image: "none" }] },
      },
      signal: withDeadline(signal, probeMs * 2),
    });
    return { name, state: "ok", found: "a pod passes the webhooks" };
  } catch (error) {
    const text = messageOf(error);
    const isOurs = /webhook/.test(text);
    return {
      name,
      state: isOurs ? "problem" : "warning",
      found: text,
      fix: isOurs
        ? "see the log of cocoon-colocation and the checks above"
        : "try with a user who may create pods",
    };
  }
}

/** The slowest bucket that 99 of 100 requests are in. */
function latency(metrics: string | undefined): ColocationCheck {
  const name = "colocation latency";
  if (metrics === undefined) return { name, state: "ok", found: "not looked at: no metrics page at hand" };
  const buckets = new Map<number, number>();
  for (const [, bound = "", value = ""] of metrics.matchAll(
    /^cocoon_colocation_admission_request_duration_seconds_bucket\{le="([^"]+)",[^}]*\} (\d+)$/gm,
  ))
    buckets.set(
      Number(bound.replace("+Inf", "Infinity")),
      (buckets.get(Number(bound.replace("+Inf", "Infinity"))) ?? 0) + Number(value),
    );
  const total = buckets.get(Number.POSITIVE_INFINITY) ?? 0;
  if (total === 0) return { name, state: "ok", found: "no request yet" };
  const p99 =
    [...buckets].toSorted(([left], [right]) => left - right).find(([, seen]) => seen >= total * 0.99)?.[0] ??
    Infinity;
  const found = `99 of 100 requests within ${p99} s`;
  return p99 <= slowSeconds
    ? { name, state: "ok", found }
    : { name, state: "warning", found, fix: "give it more CPU" };
}
