/** Headers and TLS material, kept current: files are checked once a second, plugins run when their credential expired or a 401 came. */
import { Fault, getErrorMessage, orAborted, type Abortable, type Logger } from "@cocoon/core";
import { tryOpenPlugin, type CredentialPlugin } from "./credential-plugin.ts";
import type { KubeTarget } from "./kubeconfig.ts";
import { expiredAt, TlsSource, WatchedFile, type TlsMaterial } from "./tls-material.ts";

export interface Credential {
  readonly headers: Readonly<Record<string, string | readonly string[]>>;
  readonly tls: TlsMaterial;
}

const checkAgainMs = 1_000;

export class Credentials {
  readonly #target: KubeTarget;
  readonly #log: Logger;
  readonly #tls: TlsSource;
  readonly #plugin: CredentialPlugin | undefined;
  readonly #tokenFile: WatchedFile | undefined;
  #current: Credential | undefined;
  #freshUntil = 0;
  #loading: Promise<Credential> | undefined;

  constructor(target: KubeTarget, log: Logger) {
    this.#target = target;
    this.#log = log;
    this.#tls = new TlsSource(target);
    this.#plugin = tryOpenPlugin(target);
    this.#tokenFile = target.tokenFile
      ? new WatchedFile(target.tokenFile, `users[${target.user.name}].user.tokenFile`)
      : undefined;
  }

  get caField(): string {
    return this.#tls.caField;
  }

  /** One load serves all who wait for it, so that a hundred calls do not start a hundred plugins. */
  current(options: Abortable): Promise<Credential> {
    if (this.#current && performance.now() < this.#freshUntil) return Promise.resolve(this.#current);
    return orAborted(this.#load(false), options);
  }

  async renew(used: Credential, options: Abortable): Promise<boolean> {
    if (this.#current && this.#current !== used) return true; // another call renewed it meanwhile
    return (await orAborted(this.#load(true), options)) !== used;
  }

  #load(fresh: boolean): Promise<Credential> {
    this.#loading ??= this.#read(fresh).finally(() => {
      this.#loading = undefined;
    });
    return this.#loading;
  }

  async #read(fresh: boolean): Promise<Credential> {
    const before = this.#current;
    try {
      const plugin = (await this.#plugin?.(fresh)) ?? {};
      const tls = this.#tls.read(plugin);
      const authorization = plugin.authorization ?? this.#ownAuthorization();
      if (!before || before.tls !== tls || before.headers["authorization"] !== authorization)
        this.#current = {
          tls,
          headers: { ...this.#target.impersonation, ...(authorization && { authorization }) },
        };
    } catch (error) {
      // Half-written files in the middle of a rotation: what we have still works, and we look again soon.
      if (!before) throw error;
      this.#log.warn({ error: getErrorMessage(error) }, "cannot renew the credentials for the API server");
    }
    this.#freshUntil = performance.now() + checkAgainMs;
    if (!this.#current) throw new Fault("internal", "credentials were read and are not there");
    return this.#current;
  }

  #ownAuthorization(): string | undefined {
    const { user } = this.#target;
    const token = this.#tokenFile ? this.#tokenFile.read().toString("utf8").trim() : user.token?.trim();
    if (token) return `Bearer ${token}`;
    if (!user.username) return undefined;
    return `Basic ${Buffer.from(`${user.username}:${user.password ?? ""}`).toString("base64")}`;
  }

  explainRefusal(used: Credential): string {
    const { user, source } = this.#target;
    const { cert } = used.tls;
    const expired = cert && expiredAt(cert);
    if (expired)
      return `the client certificate in ${this.#tls.certField} of ${source} expired at ${expired.toISOString()}; renew it`;
    return `the server does not accept ${this.#describe(used)} of ${source}; is users[${user.name}] of this cluster?`;
  }

  #describe(used: Credential): string {
    const { user } = this.#target;
    const field = `users[${user.name}].user`;
    if (user.exec) return `what the credential plugin in ${field}.exec gives`;
    if (user.authProvider) return `what ${field}.auth-provider gives`;
    if (this.#tokenFile) return `the token in ${this.#tokenFile.path}`;
    if (user.token) return `the token in ${field}.token`;
    if (user.username) return `the name and password in ${field} (API servers take no passwords any more)`;
    return used.tls.cert
      ? `the client certificate in ${this.#tls.certField}`
      : `a user without credentials (${field})`;
  }
}
