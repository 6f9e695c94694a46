/** CA, client certificate and key of a target, checked when they are read, so that a mistake names its field. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import { createSecureContext, type SecureContext } from "node:tls";
import { Fault, getErrorMessage } from "@cocoon/core";
import type { KubeTarget } from "./kubeconfig.ts";

/** What a new connection is opened with. Compared by identity: another object means other material. */
export interface TlsMaterial {
  readonly ca: Buffer | undefined;
  readonly cert: Buffer | undefined;
  readonly key: Buffer | undefined;
  /** The three above, read once: every connection that parsed them by itself would cost memory and time. */
  readonly context: SecureContext;
  readonly servername: string | undefined;
  readonly rejectUnauthorized: boolean;
}

interface Piece {
  readonly field: string;
  read(): Buffer | undefined;
}

export class TlsSource {
  readonly #target: KubeTarget;
  readonly #ca: Piece;
  readonly #cert: Piece;
  readonly #key: Piece;
  #last: TlsMaterial | undefined;

  constructor(target: KubeTarget) {
    const { cluster, user } = target;
    const clusterField = `clusters[${cluster.name}].cluster.certificate-authority`;
    const userField = `users[${user.name}].user.client`;
    this.#target = target;
    this.#ca = piece(cluster.caFile, cluster.caData, clusterField);
    this.#cert = piece(user.certFile, user.certData, `${userField}-certificate`);
    this.#key = piece(user.keyFile, user.keyData, `${userField}-key`);
  }

  get caField(): string {
    return this.#ca.field;
  }

  get certField(): string {
    return this.#cert.field;
  }

  /** Reads what changed. `plugin` is what a credential plugin handed out; it replaces the files. */
  read(plugin: { readonly cert?: Buffer | undefined; readonly key?: Buffer | undefined }): TlsMaterial {
    const ca = this.#ca.read();
    const cert = plugin.cert ?? this.#cert.read();
    const key = plugin.key ?? this.#key.read();
    const last = this.#last;
    if (last && same(last.ca, ca) && same(last.cert, cert) && same(last.key, key)) return last;
    const { cluster } = this.#target;
    const next: TlsMaterial = {
      ca,
      cert,
      key,
      context: this.#createContext({ ca, cert, key }),
      servername: cluster.tlsServerName,
      rejectUnauthorized: !cluster.skipTLSVerify,
    };
    this.#last = next;
    return next;
  }

  #createContext({ ca, cert, key }: Pick<TlsMaterial, "ca" | "cert" | "key">): SecureContext {
    if (ca) this.#attempt(this.#ca.field, "does not hold a PEM certificate", () => new X509Certificate(ca));
    if (cert && !key) throw this.#fault(`${this.#key.field} is missing, and the certificate needs its key`);
    if (key && !cert) throw this.#fault(`${this.#cert.field} is missing, and the key needs its certificate`);
    if (cert && key) this.#checkPair(cert, key);
    return this.#attempt(this.#ca.field, "cannot be used", () => createSecureContext({ ca, cert, key }));
  }

  #checkPair(cert: Buffer, key: Buffer): void {
    const certificate = this.#attempt(
      this.#cert.field,
      "does not hold a PEM certificate",
      () => new X509Certificate(cert),
    );
    const privateKey = this.#attempt(this.#key.field, "does not hold a PEM private key", () =>
      createPrivateKey(key),
    );
    if (!certificate.checkPrivateKey(privateKey))
      throw this.#fault(`${this.#key.field} does not belong to the certificate in ${this.#cert.field}`);
  }

  #attempt<T>(field: string, problem: string, make: () => T): T {
    try {
      return make();
    } catch (error) {
      throw this.#fault(`${field} ${problem} (${getErrorMessage(error)})`, error);
    }
  }

  #fault(text: string, cause?: unknown): Fault {
    return new Fault("invalid", `${this.#target.source}: ${text}`, { cause });
  }
}

function piece(file: string | undefined, data: string | undefined, field: string): Piece {
  if (file) {
    const watched = new WatchedFile(file, field);
    return { field: `${field} (${file})`, read: () => watched.read() };
  }
  if (!data) return { field, read: () => undefined };
  const content = Buffer.from(data, "base64");
  return { field: `${field}-data`, read: () => content };
}

function same(one: Buffer | undefined, other: Buffer | undefined): boolean {
  return one === other || (one !== undefined && other !== undefined && one.equals(other));
}

export function expiredAt(pem: Buffer, now = new Date()): Date | undefined {
  const { validToDate } = new X509Certificate(pem);
  return validToDate < now ? validToDate : undefined;
}

const largestBytes = 1024 * 1024;

/** A small file whose content is read again when the file was replaced or rewritten. */
export class WatchedFile {
  readonly path: string;
  readonly #field: string;
  #identity = "";
  #content: Buffer = Buffer.alloc(0);

  constructor(path: string, field: string) {
    this.path = path;
    this.#field = field;
  }

  /** The content as it is now; the very same Buffer as long as the file is the same. */
  read(): Buffer {
    try {
      // Kubernetes swaps a symbolic link when it updates a mounted Secret: stat follows it, so the inode changes.
      const { ino, size, mtimeMs } = statSync(this.path);
      const identity = `${ino} ${size} ${mtimeMs}`;
      if (identity === this.#identity) return this.#content;
      if (size > largestBytes) throw new Fault("tooLarge", `it has ${size} bytes, more than ${largestBytes}`);
      const content = readFileSync(this.path);
      if (!content.equals(this.#content)) this.#content = content;
      this.#identity = identity;
      return this.#content;
    } catch (error) {
      throw new Fault("invalid", `${this.#field}: ${this.path} cannot be read: ${getErrorMessage(error)}`, {
        cause: error,
      });
    }
  }
}
