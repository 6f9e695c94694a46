/** Reads the control API of the snapshot registry, with the dashboard's token. Only GET is ever sent. */
import { readFileSync } from "node:fs";
import { Fault, tryParseJson, withDeadline } from "@cocoon/core";
import type * as z from "zod";
import { requestText } from "../http/request-text.ts";

export interface RegistrySettings {
  /** host[:port][/prefix], as OCI_REGISTRY has it; a loopback address may say http://. */
  readonly address: string;
  readonly token: string | undefined;
  readonly caFile: string | undefined;
}

const answerMs = 15_000;
const maxAnswerLength = 16 * 1024 * 1024;

export class RegistryClient {
  readonly #base: URL;
  readonly #prefix: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #ca: Buffer | undefined;

  constructor({ address, token, caFile }: RegistrySettings) {
    const url = URL.parse(address.includes("://") ? address : `https://${address}`);
    if (url === null || !/^https?:$/.test(url.protocol))
      throw new Fault("invalid", `OCI_REGISTRY: "${address.slice(0, 100)}" is not host[:port][/prefix]`);
    this.#base = url;
    this.#prefix = url.pathname.replace(/^\/|\/$/g, "");
    this.#headers = {
      accept: "application/json",
      "user-agent": "cocoon-dashboard",
      ...(token ? { authorization: `Bearer ${token}` } : {}),
    };
    this.#ca = caFile ? readFileSync(caFile) : undefined;
  }

  /** The name of a repository without the prefix; undefined for those outside of it. */
  shortName(name: string): string | undefined {
    if (this.#prefix === "") return name;
    return name.startsWith(`${this.#prefix}/`) ? name.slice(this.#prefix.length + 1) : undefined;
  }

  fullName(name: string): string {
    return this.#prefix === "" ? name : `${this.#prefix}/${name}`;
  }

  /** Undefined when the registry does not have it. Refusals are `forbidden`, everything else `unavailable`. */
  async get<S extends z.ZodType>(
    path: string,
    schema: S,
    signal: AbortSignal,
  ): Promise<z.output<S> | undefined> {
    const { status, text } = await requestText({
      url: new URL(path, this.#base),
      headers: this.#headers,
      ca: this.#ca,
      maxLength: maxAnswerLength,
      signal: withDeadline(signal, answerMs),
    });
    if (status === 404) return undefined;
    if (status === 401 || status === 403)
      throw new Fault("forbidden", `the dashboard's registry token may not read ${path}`);
    const parsed = status === 200 ? schema.safeParse(tryParseJson(text)) : undefined;
    if (parsed?.success) return parsed.data;
    throw new Fault("unavailable", `the registry answered ${path} with ${status} and nothing readable`);
  }
}
