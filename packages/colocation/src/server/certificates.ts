/** Our serving certificate: from a Secret that the replicas share and renew, or from files that somebody else renews. */
import { isFault, type Logger } from "@cocoon/core";
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
import { readFile } from "node:fs/promises";
import type { ColocationSettings } from "./start.ts";

export interface CertificateSettings {
  /** Empty: koordinator-webhook-certs, or webhook-tls where only that exists. */
  readonly secretName: string;
  /** Set where files are used. */
  readonly directory: string | undefined;
  /** Unique among the replicas. */
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
  /** Nobody else keeps the bundle of the webhooks current. */
  readonly ownsBundle: boolean;
  /** Calls back when the bundle may be another one. */
  onChange(listener: () => void): Disposable;
}

const documentedSecret = "webhook-tls";
const usualSecret = "koordinator-webhook-certs";
/** Koordinator's names inside the Secret; `webhook-tls` has the standard ones. */
const koordinatorNames = { "ca.crt": "ca-cert.pem", "ca.key": "ca-key.pem" };

export async function openCertificates(parts: CertificateParts): Promise<OpenedCertificates> {
  const { settings } = parts;
  return settings.certificates.directory === undefined
    ? fromSecret(parts)
    : fromFiles(parts, settings.certificates.directory);
}

async function fromSecret({ client, settings, log, signal }: CertificateParts): Promise<OpenedCertificates> {
  const { namespace, serviceName, url, configurationNames: names } = settings;
  const name = await secretNameOf({ client, settings, log, signal });
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

async function secretNameOf({ client, settings, signal }: CertificateParts): Promise<string> {
  const { secretName } = settings.certificates;
  if (secretName !== "") return secretName;
  const exists = async (name: string) => {
    try {
      await client.get(secrets, { namespace: settings.namespace, name }, { signal });
      return true;
    } catch (error) {
      if (isFault(error, "notFound")) return false;
      throw error;
    }
  };
  if (await exists(usualSecret)) return usualSecret;
  return (await exists(documentedSecret)) ? documentedSecret : usualSecret;
}

async function fromFiles({ log }: CertificateParts, directory: string): Promise<OpenedCertificates> {
  const serving = await startFileCertificates({
    certificateFile: join(directory, "tls.crt"),
    keyFile: join(directory, "tls.key"),
    log,
  });
  const read = () => firstOf([join(directory, "ca.crt"), join(directory, "ca-cert.pem")]);
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

async function firstOf(files: readonly string[]): Promise<string> {
  for (const file of files) {
    try {
      return await readFile(file, "utf8");
    } catch {
      continue; // not this one
    }
  }
  return "";
}
