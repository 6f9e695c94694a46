/** Where replicas keep the certificates that they share: a Secret. The note is an annotation: it holds no secret, and `kubectl describe` shows it. */
import { ignoreFault, type Abortable } from "@cocoon/core";
import { secrets } from "../builtin.ts";
import type { Secret } from "../builtin-objects.ts";
import type { KubeClient } from "../client/client.ts";
import { keyText, type ObjectKey } from "../object.ts";
import type { StoredContent } from "./rotation-state.ts";
import type { WatchedObject } from "./notices.ts";

export interface Stored extends StoredContent {
  readonly version: string;
}

/** Writes are conditional: the slower of two replicas gets `conflict` or `alreadyExists`. Any other fault is no absence. */
export interface CertificateStore {
  readonly description: string;
  readonly object?: WatchedObject;
  read(options: Abortable): Promise<Stored | undefined>;
  create(content: StoredContent, options: Abortable): Promise<void>;
  /** Replaces what was read; other people's keys in it stay. */
  replace(read: Stored, content: StoredContent, options: Abortable): Promise<void>;
}

const noteAnnotation = "serving-certificates/rotation";

export interface SecretStoreOptions {
  readonly client: KubeClient;
  readonly key: ObjectKey & { readonly namespace: string };
  readonly labels?: Readonly<Record<string, string>>;
  /** Other names for `ca.crt`, `ca.key`, `tls.crt` and `tls.key`, for a Secret that other programs read too. */
  readonly rename?: Readonly<Record<string, string>>;
}

export function secretStore({ client, key, labels, rename = {} }: SecretStoreOptions): CertificateStore {
  let last: Secret | undefined;
  const getName = (field: string) => rename[field] ?? field;
  const encode = (data: StoredContent["data"]) =>
    Object.fromEntries(
      Object.entries(data).map(([field, text]) => [getName(field), Buffer.from(text).toString("base64")]),
    );
  const decode = (data: Secret["data"] = {}) =>
    Object.fromEntries(
      ["ca.crt", "ca.key", "tls.crt", "tls.key"].flatMap((field) => {
        const encoded = data[getName(field)];
        return encoded === undefined ? [] : [[field, Buffer.from(encoded, "base64").toString("utf8")]];
      }),
    );
  return {
    description: `Secret ${keyText(key)}`,
    object: { type: secrets, key },
    async read({ signal }: Abortable): Promise<Stored | undefined> {
      const secret = await ignoreFault("notFound", client.get(secrets, key, { signal }));
      if (!secret) return undefined;
      const version = secret.metadata.resourceVersion ?? "";
      last = secret;
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
      const isLast = last?.metadata.resourceVersion === read.version;
      const secret: Secret = (isLast && last) || { metadata: { ...key, resourceVersion: read.version } };
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
