/** Our serving certificate: from a Secret that the replicas share and renew, or from files that another tool renews. */
import { ignoreFault, tryReadFile, type Logger } from "@cocoon/core";
import { secrets, type KubeConnection } from "@cocoon/kube";
import {
  mutatingWebhooks,
  secretStore,
  startBuiltInCertificates,
  startFileCertificates,
  validatingWebhooks,
  type ServingCertificates,
} from "@cocoon/kube/certificates";
import { join } from "node:path";
import type { ColocationSettings } from "./start.ts";

export interface CertificateSettings {
  /** Empty: koordinator-webhook-certs, or webhook-tls where only that exists. */
  readonly secretName: string;
  readonly directory: string | undefined;
  readonly replica: string;
}

interface CertificateParts {
  readonly client: KubeConnection;
  readonly settings: Pick<
    ColocationSettings,
    "certificates" | "namespace" | "serviceName" | "url" | "configurationNames"
  >;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

interface OpenedCertificates extends AsyncDisposable {
  readonly serving: ServingCertificates;
  /** PEM; empty when the files do not say who signed them. */
  caBundle(): string;
  /** No other tool keeps the bundle of the webhooks current. */
  readonly ownsBundle: boolean;
  onChange(listener: () => void): Disposable;
}

const documentedSecret = "webhook-tls";
const usualSecret = "koordinator-webhook-certs";
/** Koordinator's names inside the Secret; `webhook-tls` has the standard ones. */
const koordinatorNames = { "ca.crt": "ca-cert.pem", "ca.key": "ca-key.pem" };

export function openCertificates(parts: CertificateParts): Promise<OpenedCertificates> {
  const { directory } = parts.settings.certificates;
  return directory === undefined ? fromSecret(parts) : fromFiles(parts, directory);
}

async function fromSecret({ client, settings, log, signal }: CertificateParts): Promise<OpenedCertificates> {
  const { namespace, serviceName, url, configurationNames: names } = settings;
  const name = await findSecretName({ client, settings, log, signal });
  const host = url?.host ?? `${serviceName}.${namespace}.svc`;
  const built = await startBuiltInCertificates(
    {
      store: secretStore({
        client,
        key: { namespace, name },
        ...(name === documentedSecret ? {} : { rename: koordinatorNames }),
      }),
      targets: [
        mutatingWebhooks({ client, name: names.mutating }),
        validatingWebhooks({ client, name: names.validating }),
      ],
      names: { commonName: host, hosts: [...new Set([host, "localhost"])] },
      replica: settings.certificates.replica,
      authorityName: "webhook-cert-ca",
      connection: client,
      log,
    },
    { signal },
  );
  return {
    serving: built,
    caBundle: () => built.caBundle(),
    ownsBundle: false, // the rotation puts new authorities in, and takes old ones out, step by step
    onChange: () => ({ [Symbol.dispose]: () => undefined }),
    [Symbol.asyncDispose]: () => built[Symbol.asyncDispose](),
  };
}

async function findSecretName({ client, settings, signal }: CertificateParts): Promise<string> {
  const { secretName } = settings.certificates;
  if (secretName !== "") return secretName;
  const { namespace } = settings;
  const find = (name: string) =>
    ignoreFault("notFound", client.get(secrets, { namespace, name }, { signal }));
  if (await find(usualSecret)) return usualSecret;
  return (await find(documentedSecret)) ? documentedSecret : usualSecret;
}

async function fromFiles({ log }: CertificateParts, directory: string): Promise<OpenedCertificates> {
  const serving = await startFileCertificates({
    certificateFile: join(directory, "tls.crt"),
    keyFile: join(directory, "tls.key"),
    log,
  });
  const read = async () =>
    (await tryReadFile(join(directory, "ca.crt"))) ??
    (await tryReadFile(join(directory, "ca-cert.pem"))) ??
    "";
  let bundle = await read();
  const listeners = new Set<() => void>();
  const following = serving.onChange(() => {
    void read().then((text) => {
      bundle = text || bundle;
      for (const listener of listeners) listener();
    });
  });
  return {
    serving,
    caBundle: () => bundle,
    ownsBundle: bundle !== "",
    onChange: (listener) => {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
    [Symbol.asyncDispose]: async () => {
      following[Symbol.dispose]();
      await serving[Symbol.asyncDispose]();
    },
  };
}
