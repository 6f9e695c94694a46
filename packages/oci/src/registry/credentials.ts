/**
 * Who we are to a registry. Credentials come from the docker configuration file (entries or helper programs), or
 * are handed over directly. They are never part of an argument list, a log field or an error message.
 */
import { spawn } from "node:child_process";
import { homedir } from "node:os";
import { join } from "node:path";
import {
  Fault,
  getErrorMessage,
  tryReadFile,
  withDeadline,
  type Abortable,
  tryParseJson,
} from "@cocoon/core";
import * as z from "zod";

export type Credential =
  | { readonly kind: "anonymous" }
  | { readonly kind: "basic"; readonly username: string; readonly password: string }
  /** Sent as it is with every request, as epoch's own clients do. */
  | { readonly kind: "bearer"; readonly token: string }
  /** Traded for an access token at the registry's token service (docker calls it identity token). */
  | { readonly kind: "refresh"; readonly token: string };

export interface CredentialSource {
  /** May be called often; a source that asks another program keeps the answer for a while. */
  find(host: string, options: Abortable): Promise<Credential>;
}

const anonymous: Credential = { kind: "anonymous" };

/** The same credential for every registry; without one, none. */
export function fixedCredential(credential: Credential = anonymous): CredentialSource {
  return { find: () => Promise.resolve(credential) };
}

/** Where docker keeps its configuration, by its own rules. */
export function dockerConfigPath(env: Readonly<Record<string, string | undefined>>): string {
  return join(env["DOCKER_CONFIG"] || join(env["HOME"] || homedir(), ".docker"), "config.json");
}

const entrySchema = z.looseObject({
  auth: z.string().optional(),
  username: z.string().optional(),
  password: z.string().optional(),
  identitytoken: z.string().optional(),
  registrytoken: z.string().optional(),
});
type Entry = z.output<typeof entrySchema>;

const configSchema = z.looseObject({
  auths: z.record(z.string(), entrySchema).optional(),
  credHelpers: z.record(z.string(), z.string()).optional(),
  credsStore: z.string().optional(),
});
type DockerConfig = z.output<typeof configSchema>;

interface DockerCredentialOptions {
  readonly configPath: string;
  /** Time for a helper program to answer. */
  readonly helperTimeoutMs?: number;
  /** How long a helper's answer is believed; helpers hand out tokens that end after some hours at most. */
  readonly helperCacheMs?: number;
}

/** Credentials by docker's rules: a helper named for the host, else an entry, else the general helper. */
export function dockerCredentials(options: DockerCredentialOptions): CredentialSource {
  const { helperTimeoutMs = 30_000, helperCacheMs = 5 * 60_000 } = options;
  const answers = new Map<string, { readonly until: number; readonly credential: Credential }>();
  return {
    async find(host, { signal }) {
      const config = await readDockerConfig(options.configPath);
      const direct = lookUp(config, host);
      if (direct.helper === undefined) return direct.credential;
      const key = `${direct.helper}\n${host}`;
      const cached = answers.get(key);
      if (cached && cached.until > Date.now()) return cached.credential;
      const question = { helper: direct.helper, server: serverName(host) };
      const credential = await askHelper(question, withDeadline(signal, helperTimeoutMs));
      answers.set(key, { until: Date.now() + helperCacheMs, credential });
      return credential;
    },
  };
}

async function readDockerConfig(path: string): Promise<DockerConfig> {
  const text = await tryReadFile(path);
  if (text === undefined) return {};
  try {
    return configSchema.parse(JSON.parse(text));
  } catch (error) {
    // The parser's message may quote the file, and the file holds secrets.
    const where =
      error instanceof z.ZodError ? error.issues.map((each) => each.path.join(".")).join(", ") : "";
    throw new Fault("invalid", `docker configuration ${path} is malformed${where && `: ${where}`}`);
  }
}

function lookUp(config: DockerConfig, host: string): { helper?: string; credential: Credential } {
  const helper = matching(config.credHelpers, host);
  if (helper) return { helper, credential: anonymous };
  const entry = matching(config.auths, host);
  const credential = entry ? readEntry(entry, host) : anonymous;
  if (credential.kind !== "anonymous" || !config.credsStore) return { credential };
  return { helper: config.credsStore, credential: anonymous };
}

/** Keys may be bare hosts or URLs with `/v1/` or `/v2/` behind them. */
function matching<T>(table: Readonly<Record<string, T>> | undefined, host: string): T | undefined {
  const wanted = serverNames(host);
  for (const [key, value] of Object.entries(table ?? {})) {
    if (wanted.has(key.replace(/^https?:\/\//, "").replace(/\/(v[12]\/?)?$/, ""))) return value;
  }
  return undefined;
}

const dockerHub = new Set(["docker.io", "index.docker.io", "registry-1.docker.io"]);

function serverNames(host: string): ReadonlySet<string> {
  return dockerHub.has(host) ? dockerHub : new Set([host]);
}

function serverName(host: string): string {
  return dockerHub.has(host) ? "https://index.docker.io/v1/" : host;
}

function readEntry(entry: Entry, host: string): Credential {
  if (entry.identitytoken) return { kind: "refresh", token: entry.identitytoken };
  if (entry.registrytoken) return { kind: "bearer", token: entry.registrytoken };
  if (entry.username && entry.password)
    return { kind: "basic", username: entry.username, password: entry.password };
  if (!entry.auth) return anonymous;
  const text = Buffer.from(entry.auth, "base64").toString("utf8").replace(/\0+$/, "");
  const colon = text.indexOf(":");
  if (colon < 1) throw new Fault("invalid", `docker configuration: auths.${host}.auth is not user:password`);
  return { kind: "basic", username: text.slice(0, colon), password: text.slice(colon + 1) };
}

const helperAnswer = z.looseObject({ Username: z.string(), Secret: z.string() });
const helperOutputBytes = 1024 * 1024;
const notFoundText = /credentials not found|no credentials server url/i;

interface HelperQuestion {
  readonly helper: string;
  readonly server: string;
}

async function askHelper(question: HelperQuestion, signal: AbortSignal): Promise<Credential> {
  if (!/^[A-Za-z0-9_.-]+$/.test(question.helper))
    throw new Fault("invalid", `docker configuration: credential helper "${question.helper}" is not a name`);
  const program = `docker-credential-${question.helper}`;
  const { code, output } = await runHelper(program, question.server, signal);
  if (code !== 0) {
    if (notFoundText.test(output)) return anonymous;
    throw new Fault("unavailable", `${program} failed with exit code ${code} for ${question.server}`);
  }
  const parsed = helperAnswer.safeParse(tryParseJson(output));
  if (!parsed.success)
    throw new Fault("unavailable", `${program} gave no answer that docker would understand`);
  const { Username: username, Secret: secret } = parsed.data;
  if (username === "<token>") return { kind: "refresh", token: secret };
  return { kind: "basic", username, password: secret };
}

function runHelper(
  program: string,
  server: string,
  signal: AbortSignal,
): Promise<{ readonly code: number | null; readonly output: string }> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, ["get"], {
      stdio: ["pipe", "pipe", "ignore"],
      signal,
      killSignal: "SIGKILL",
    });
    const pieces: Buffer[] = [];
    let size = 0;
    child.stdout.on("data", (piece: Buffer) => {
      size += piece.length;
      if (size > helperOutputBytes) child.kill("SIGKILL");
      else pieces.push(piece);
    });
    child.once("error", (error) =>
      reject(new Fault("unavailable", `cannot run ${program}: ${getErrorMessage(error)}`, { cause: error })),
    );
    child.once("close", (code) => resolve({ code, output: Buffer.concat(pieces).toString("utf8") }));
    child.stdin.on("error", () => undefined); // it may answer without reading the question
    child.stdin.end(server);
  });
}
