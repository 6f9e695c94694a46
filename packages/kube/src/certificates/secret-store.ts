/** Certificates in a Secret. The note is an annotation: it holds no secret, and `kubectl describe` shows it. */
import { isFault, type Abortable } from "@cocoon/core";
import { secrets } from "../builtin.ts";
import type { Secret } from "../builtin-objects.ts";
import type { KubeClient } from "../client.ts";
import { keyText, type ObjectKey } from "../object.ts";
import type { StoredContent } from "./rotation-state.ts";
import type { CertificateStore, Stored } from "./store.ts";

const noteAnnotation = "serving-certificates/rotation";

export interface SecretStoreOptions {
  readonly client: KubeClient;
  readonly key: ObjectKey & { readonly namespace: string };
  /** Labels of a Secret that is created. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Other names for `ca.crt`, `ca.key`, `tls.crt` and `tls.key`, for a Secret that other programs read too. */
  readonly rename?: Readonly<Record<string, string>>;
}

export function secretStore({ client, key, labels, rename = {} }: SecretStoreOptions): CertificateStore {
  const last = new Map<string, Secret>();
  const nameOf = (field: string) => rename[field] ?? field;
  const encode = (data: StoredContent["data"]) =>
    Object.fromEntries(
      Object.entries(data).map(([field, text]) => [nameOf(field), Buffer.from(text).toString("base64")]),
    );
  const decode = (data: Secret["data"] = {}) =>
    Object.fromEntries(
      ["ca.crt", "ca.key", "tls.crt", "tls.key"].flatMap((field) => {
        const encoded = data[nameOf(field)];
        return encoded === undefined ? [] : [[field, Buffer.from(encoded, "base64").toString("utf8")]];
      }),
    );
  return {
    description: `Secret ${keyText(key)}`,
    object: { type: secrets, key },
    async read({ signal }: Abortable): Promise<Stored | undefined> {
      const secret = await tryGet(client, key, signal);
      if (!secret) return undefined;
      const version = secret.metadata.resourceVersion ?? "";
      last.clear();
      last.set(version, secret);
      const note = secret.metadata.annotations?.[noteAnnotation] ?? "";
      return { version, note, data: decode(secret.data) };
    },
    async create(content, { signal }) {
      const metadata = { ...key, annotations: { [noteAnnotation]: content.note }, ...(labels && { labels }) };
      const secret = {
        apiVersion: "v1",
        kind: "Secret",
        metadata,
        type: typeFor(rename),
        data: encode(content.data),
      };
      await client.create(secrets, secret, { signal });
    },
    async replace(read, content, { signal }) {
      const secret = last.get(read.version) ?? { metadata: { ...key, resourceVersion: read.version } };
      const annotations = { ...secret.metadata.annotations, [noteAnnotation]: content.note };
      const updated = {
        ...secret,
        metadata: { ...secret.metadata, annotations },
        data: { ...secret.data, ...encode(content.data) },
      };
      await client.update(secrets, updated, { signal });
    },
  };
}

/** The TLS type demands the standard names. */
function typeFor(rename: Readonly<Record<string, string>>): string {
  return rename["tls.crt"] || rename["tls.key"] ? "Opaque" : "kubernetes.io/tls";
}

async function tryGet(client: KubeClient, key: ObjectKey, signal: AbortSignal): Promise<Secret | undefined> {
  try {
    return await client.get(secrets, key, { signal });
  } catch (error) {
    if (isFault(error, "notFound")) return undefined;
    throw error;
  }
}
