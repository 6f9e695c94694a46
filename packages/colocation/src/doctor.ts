/** The usual checks of an installation, for `cocoonctl doctor`: each says what was found and what to do about it. */
import { connect } from "node:tls";
import { X509Certificate } from "node:crypto";
import { getErrorMessage, withDeadline, type Abortable } from "@cocoon/core";
import {
  mutatingWebhookConfigurations,
  secrets,
  validatingWebhookConfigurations,
  type KubeClient,
  type WebhookConfiguration,
} from "@cocoon/kube";

interface ColocationCheck {
  readonly name: string;
  readonly state: "ok" | "warning" | "problem";
  readonly found: string;
  readonly fix?: string;
}

function results(name: string) {
  return {
    ok: (found: string): ColocationCheck => ({ name, state: "ok", found }),
    warning: (found: string, fix: string): ColocationCheck => ({ name, state: "warning", found, fix }),
    problem: (found: string, fix: string): ColocationCheck => ({ name, state: "problem", found, fix }),
  };
}

export interface DoctorOptions extends Abortable {
  readonly client: KubeClient;
  readonly namespace: string;
  readonly configurationNames?: typeof defaultNames;
}

const defaultNames = { mutating: "cocoon-colocation-mutating", validating: "cocoon-colocation-validating" };
const secretNames = ["koordinator-webhook-certs", "webhook-tls"];
const warnDays = 21;
const probeMs = 5_000;

/** Never rejects: a lookup that failed is reported as a problem. */
export async function checkColocation(options: DoctorOptions): Promise<ColocationCheck[]> {
  const names = options.configurationNames ?? defaultNames;
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
  ];
}

interface Tried<T> {
  readonly value?: T;
  readonly problem?: string;
}

async function tryGet<T>(get: () => Promise<T>): Promise<Tried<T>> {
  try {
    return { value: await get() };
  } catch (error) {
    return { problem: getErrorMessage(error) };
  }
}

function present(found: readonly Tried<WebhookConfiguration>[], names: typeof defaultNames): ColocationCheck {
  const missing = [names.mutating, names.validating].filter(
    (_name, index) => !found[index]?.value?.webhooks?.length,
  );
  const check = results("colocation configuration");
  const why = found.map((each) => each.problem ?? "").join(" ");
  if (missing.length > 0)
    return check.problem(
      `${missing.join(" and ")} missing or empty: ${why}`.trim(),
      "start cocoon-colocation; it writes them once it is ready",
    );
  return check.ok(`${found.flatMap((each) => each.value?.webhooks ?? []).length} webhooks registered`);
}

type Webhook = NonNullable<WebhookConfiguration["webhooks"]>[number];

/** The Secret's certificate: signed by what the API server trusts, for the right name, for long enough. */
async function certificate(options: DoctorOptions, webhooks: readonly Webhook[]): Promise<ColocationCheck> {
  const { namespace } = options;
  for (const name of secretNames) {
    const { value: secret } = await tryGet(() => options.client.get(secrets, { namespace, name }, options));
    const pem = secret?.data?.["tls.crt"];
    if (pem) return checkCertificate(new X509Certificate(Buffer.from(pem, "base64")), webhooks);
  }
  return results("colocation certificate").problem(
    `none of the Secrets ${secretNames.join(", ")} in ${namespace} holds a certificate`,
    "start cocoon-colocation; it makes one",
  );
}

function checkCertificate(leaf: X509Certificate, webhooks: readonly Webhook[]): ColocationCheck {
  const check = results("colocation certificate");
  const days = Math.floor((Date.parse(leaf.validTo) - Date.now()) / 86_400_000);
  const untrusted = webhooks.filter(({ clientConfig }) => !trusts(clientConfig.caBundle, leaf));
  if (untrusted.length > 0)
    return check.problem(
      `the caBundle of ${untrusted.map((each) => each.name).join(", ")} does not match the served certificate`,
      "look at the log of cocoon-colocation: it writes the bundle within a minute",
    );
  const wrong = webhooks.filter(
    ({ clientConfig }) => !leaf.checkHost(readHost(clientConfig)) && !leaf.checkIP(readHost(clientConfig)),
  );
  if (wrong.length > 0)
    return check.problem(
      `the certificate is not for ${readHost(wrong[0]?.clientConfig ?? {})} (${leaf.subjectAltName ?? "no names"})`,
      "set SERVICE_NAME and POD_NAMESPACE as the Service has them",
    );
  if (days < warnDays) return check.warning(`${days} days left`, "is a replica running? it renews in time");
  return check.ok(`matches its caBundle and names, ${days} days left`);
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

function readHost({ url, service }: Webhook["clientConfig"]): string {
  if (url) return new URL(url).hostname;
  return service ? `${service.name}.${service.namespace}.svc` : "";
}

/** A URL can be checked from here; a Service is only reachable from inside the cluster. */
async function servedMatches(webhooks: readonly Webhook[]): Promise<ColocationCheck> {
  const check = results("colocation server");
  const url = webhooks.find(({ clientConfig }) => clientConfig.url)?.clientConfig.url;
  if (!url) return check.ok("called through its Service; see the dry run below");
  const { hostname, port } = new URL(url);
  const problem = await handshake(hostname, Number(port || 443), webhooks[0]?.clientConfig.caBundle);
  if (problem !== undefined)
    return check.problem(`${hostname}:${port}: ${problem}`, "is cocoon-colocation running?");
  return check.ok(`${hostname}:${port} serves a certificate that the API server trusts`);
}

function handshake(host: string, port: number, caBundle: string | undefined): Promise<string | undefined> {
  return new Promise((resolve) => {
    const ca = Buffer.from(caBundle ?? "", "base64").toString("utf8");
    const socket = connect({ host, port, ca, timeout: probeMs }, () => {
      socket.end();
      resolve(undefined);
    });
    socket.on("timeout", () => socket.destroy(new Error("no answer")));
    socket.on("error", (error) => resolve(getErrorMessage(error)));
  });
}

/** A pod that is never made: it goes through both pod webhooks. */
async function reachable({ client, signal }: DoctorOptions): Promise<ColocationCheck> {
  const check = results("colocation dry run");
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
    return check.ok("a pod passes the webhooks");
  } catch (error) {
    const text = getErrorMessage(error);
    return /webhook/.test(text)
      ? check.problem(text, "see the log of cocoon-colocation and the checks above")
      : check.warning(text, "try with a user who may create pods");
  }
}
