/** A registry that speaks the OCI Distribution API, as a client sees it. Opened once, used by many, then disposed. */
import { isRepository } from "@cocoon/contract";
import { Fault, type Abortable } from "@cocoon/core";
import { readRegistryAddress, type RegistryAddress } from "./address.ts";
import { fixedCredential, type CredentialSource } from "./credentials.ts";
import { parseJson } from "../parse-json.ts";
import { catalogPage, listPages } from "./listing.ts";
import { Repository, type RegistryCheck } from "./repository.ts";
import { describe, Transport, type TransportOptions } from "./transport.ts";
import { readFault, readBody, type WireRequest, type WireResponse } from "./wire.ts";

export interface RegistryOptions extends Omit<TransportOptions, "address" | "credentials"> {
  /** `host[:port][/prefix]`, or with `http://` or `https://` in front. */
  readonly address: string;
  /** Speak plain HTTP beyond loopback. */
  readonly plainHttp?: boolean;
  readonly credentials?: CredentialSource;
}

interface ApiCall {
  readonly method: "GET" | "POST" | "DELETE";
  readonly path: string;
  readonly body?: unknown;
}

const apiAnswerBytes = 64 * 1024 * 1024;

export class Registry implements AsyncDisposable {
  readonly address: RegistryAddress;
  readonly #transport: Transport;
  #confirmed: Promise<void> | undefined;

  constructor(options: RegistryOptions) {
    this.address = readRegistryAddress(options.address, {
      ...(options.plainHttp === undefined ? {} : { plainHttp: options.plainHttp }),
      tls: options.ca !== undefined,
    });
    this.#transport = new Transport({
      ...options,
      address: this.address,
      credentials: options.credentials ?? fixedCredential(),
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#transport[Symbol.asyncDispose]();
  }

  /** A repository by its name below the address's prefix. Nothing is asked yet. */
  repository(name: string): Repository {
    const full = this.fullName(name);
    if (!isRepository(full)) throw new Fault("invalid", `"${full.slice(0, 300)}" is not a repository name`);
    return new Repository({
      transport: this.#transport,
      base: new URL(`/v2/${full}/`, this.address.origin),
      name: full,
      assertRegistry: (options) => this.#assertRegistry(options),
    });
  }

  /** The repository's name with the address's prefix in front. */
  fullName(name: string): string {
    return [this.address.prefix, name].filter((each) => each !== "").join("/");
  }

  /** Throws unless the registry answers and takes our credentials. */
  async ping({ signal }: Abortable): Promise<void> {
    const request = this.#request("/v2/", []);
    const response = await this.#transport.send(request, { signal });
    if (response.status !== 200) throw await readFault(response, describe(request));
    await response.body.dump();
  }

  /** All repositories that the registry lists, its prefix included. */
  repositories(options: Abortable): AsyncGenerator<string, void, undefined> {
    const request = this.#request("/v2/_catalog", ["registry:catalog:*"]);
    const assertAbsent = async (response: WireResponse, each: Abortable) => {
      await response.body.dump();
      await this.#assertRegistry(each);
    };
    return listPages({ transport: this.#transport, request, read: catalogPage, assertAbsent }, options);
  }

  /**
   * A call beside the distribution API, such as the administration of our own server. The answer's JSON; a Fault when
   * it is not a success.
   */
  async call({ method, path, body }: ApiCall, { signal }: Abortable): Promise<unknown> {
    const request: WireRequest = {
      ...this.#request(path, []),
      method,
      repeatable: method !== "POST",
      ...(body === undefined
        ? {}
        : { body: Buffer.from(JSON.stringify(body)), headers: { "content-type": "application/json" } }),
    };
    const response = await this.#transport.send(request, { signal });
    if (response.status < 200 || response.status > 299) throw await readFault(response, describe(request));
    const bytes = await readBody(response, apiAnswerBytes);
    return bytes.length === 0 ? undefined : parseJson(bytes, `answer to ${path}`);
  }

  /** A 200 or a demand for credentials at `/v2/` is how a registry shows itself. A yes is remembered. */
  async #assertRegistry({ signal, now = false }: RegistryCheck): Promise<void> {
    if (now) return this.#probe(signal);
    const asked = (this.#confirmed ??= this.#probe(signal));
    try {
      await asked;
    } catch (error) {
      if (this.#confirmed === asked) this.#confirmed = undefined;
      throw error;
    }
  }

  async #probe(signal: AbortSignal): Promise<void> {
    const request = this.#request("/v2/", []);
    const response = await this.#transport.send(request, { signal });
    await response.body.dump();
    if (![200, 401, 403].includes(response.status))
      throw new Fault(
        "unavailable",
        `${this.address.origin} answers ${response.status} at /v2/: it is no registry, so nothing is known about its content`,
      );
  }

  #request(path: string, scopes: readonly string[]): WireRequest {
    return { method: "GET", url: new URL(path, this.address.origin), scopes, repeatable: true };
  }
}

export function openRegistry(options: RegistryOptions): Registry {
  return new Registry(options);
}
