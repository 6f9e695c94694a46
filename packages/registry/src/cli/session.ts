/** What every client command works with: where the registry is, who we are to it, how to speak to people. */
import { readFile } from "node:fs/promises";
import { tryParseImageReference } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import {
  dockerConfigPath,
  dockerCredentials,
  fixedCredential,
  openRegistry,
  type Registry,
  type Repository,
} from "@cocoon/oci";
import type { Command } from "commander";
import type * as z from "zod";
import { Output, type Streams } from "./output.ts";

/** What the client commands take from the environment; epoch's own names are kept. */
export interface ClientEnvironment {
  readonly server: string;
  readonly token: string | undefined;
  readonly caFile: string | undefined;
  readonly cocoon: string;
  readonly all: Readonly<Record<string, string | undefined>>;
}

export function clientEnvironment(env: ClientEnvironment["all"]): ClientEnvironment {
  return {
    server: env["EPOCH_SERVER"] || "http://127.0.0.1:8080",
    token: env["EPOCH_REGISTRY_TOKEN"] || undefined,
    caFile: env["EPOCH_CA_CERT"] || undefined,
    cocoon: env["EPOCH_COCOON_BINARY"] || "cocoon",
    all: env,
  };
}

export interface GlobalOptions {
  readonly server?: string;
  readonly ca?: string;
  readonly plainHttp?: boolean;
  readonly json?: boolean;
  readonly quiet?: boolean;
}

export interface Target {
  readonly repository: Repository;
  readonly reference: string;
  /** As people read it: `name:tag` or `name@digest`. */
  readonly text: string;
  readonly foreign: boolean;
}

export interface SessionParts {
  readonly signal: AbortSignal;
  readonly environment: ClientEnvironment;
  readonly streams: Streams;
}

export class Session implements AsyncDisposable {
  readonly signal: AbortSignal;
  readonly environment: ClientEnvironment;
  readonly streams: Streams;
  readonly output: Output;
  readonly #options: GlobalOptions;
  readonly #open = new Map<string, Registry>();

  constructor(command: Command, { signal, environment, streams }: SessionParts) {
    this.#options = command.optsWithGlobals();
    this.signal = signal;
    this.environment = environment;
    this.streams = streams;
    const { json = false, quiet = false } = this.#options;
    this.output = new Output({ json, quiet }, streams);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const registry of this.#open.values()) await registry[Symbol.asyncDispose]();
  }

  server(): Promise<Registry> {
    return this.#registry(this.#options.server ?? this.environment.server, this.environment.token);
  }

  /** A request to the server's control API. */
  async call<T>(schema: z.ZodType<T>, request: Parameters<Registry["call"]>[0]): Promise<T> {
    const parsed = schema.safeParse(await (await this.server()).call(request, this));
    if (parsed.success) return parsed.data;
    throw new Fault("unavailable", `the server's answer to ${request.path} is malformed`, {
      cause: parsed.error,
    });
  }

  /** `name[:tag]` on the server, or `host/name[:tag]` anywhere; `@sha256:…` instead of a tag. */
  async target(text: string, defaultTag = "latest"): Promise<Target> {
    const parsed = tryParseImageReference(text);
    if (parsed?.kind !== "registry")
      throw new Fault(
        "badRequest",
        `"${text}" is not a reference; use name[:tag], name@digest or host/name[:tag]`,
      );
    const { registry: host, repository: name, tag, digest } = parsed;
    // Another registry knows nothing of the server's token: docker's configuration says who we are there.
    const registry = host === undefined ? await this.server() : await this.#registry(host, undefined);
    const reference = digest ?? tag ?? defaultTag;
    const shown = digest === undefined ? `${name}:${reference}` : `${name}@${digest}`;
    return {
      repository: registry.repository(name),
      reference,
      text: host === undefined ? shown : `${host}/${shown}`,
      foreign: host !== undefined,
    };
  }

  async #registry(address: string, token: string | undefined): Promise<Registry> {
    const known = this.#open.get(address);
    if (known) return known;
    const caFile = this.#options.ca ?? this.environment.caFile;
    const registry = openRegistry({
      address,
      // An explicit http:// is a choice.
      plainHttp: (this.#options.plainHttp ?? false) || address.startsWith("http://"),
      credentials: token
        ? fixedCredential({ kind: "bearer", token })
        : dockerCredentials({ configPath: dockerConfigPath(this.environment.all) }),
      retry: { attempts: 3 },
      ...(caFile === undefined ? {} : { ca: await readFile(caFile, "utf8") }),
    });
    this.#open.set(address, registry);
    return registry;
  }
}

/** Makes the action of a command from its work: a session that is closed afterwards, arguments, options. */
export type Run = (
  work: (session: Session, args: readonly string[], options: never) => Promise<void>,
) => (...parts: unknown[]) => Promise<void>;

/** For options that may be repeated. */
export function collect(value: string, earlier: readonly string[]): readonly string[] {
  return [...earlier, value];
}
