/**
 * Google's application default credentials, for Google's registries alone. In Google's own order:
 *
 *   the file that GOOGLE_APPLICATION_CREDENTIALS names    service_account or authorized_user
 *   the file of `gcloud auth application-default login`   the same
 *   the metadata server of the machine                    the account that the machine runs as
 *
 * Each is traded for an access token, which is kept until shortly before it ends. Other registries never receive it,
 * and no request is made for them.
 */
import { createPrivateKey, sign } from "node:crypto";
import { homedir } from "node:os";
import { join } from "node:path";
import {
  Fault,
  getErrorMessage,
  orAborted,
  tryReadFile,
  withDeadline,
  type Abortable,
  tryParseJson,
} from "@cocoon/core";
import * as z from "zod";
import { isLoopbackHost } from "./address.ts";
import type { Credential, CredentialSource } from "./credentials.ts";

export interface GoogleCredentialOptions {
  /** GOOGLE_APPLICATION_CREDENTIALS; a file that is named must be there. */
  readonly file?: string | undefined;
  /** Where gcloud puts its own; default by its rules. */
  readonly usualFile?: string | undefined;
  /** GCE_METADATA_HOST: host[:port]; empty: no lookup. */
  readonly metadataHost?: string | undefined;
  readonly now?: () => number;
}

const defaultMetadataHost = "169.254.169.254";
const defaultTokenUri = "https://oauth2.googleapis.com/token";
const scope = "https://www.googleapis.com/auth/cloud-platform";
/** Any name does; this is the one that Go's registry library sends. */
const username = "_token";
const exchangeMs = 15_000;
/** Machines of other providers do not answer. */
const metadataMs = 2_000;
const answerBytes = 1024 * 1024;
const anonymous: Credential = { kind: "anonymous" };

const userSchema = z.looseObject({
  type: z.literal("authorized_user"),
  client_id: z.string().min(1),
  client_secret: z.string().min(1),
  refresh_token: z.string().min(1),
  token_uri: z.string().optional(),
});
const serviceSchema = z.looseObject({
  type: z.literal("service_account"),
  client_email: z.string().min(1),
  private_key: z.string().min(1),
  private_key_id: z.string().optional(),
  token_uri: z.string().optional(),
});
const fileSchema = z.discriminatedUnion("type", [userSchema, serviceSchema]);
type CredentialFile = z.output<typeof fileSchema>;

const tokenSchema = z.looseObject({ access_token: z.string().min(1), expires_in: z.number().optional() });

/** `gcr.io`, `eu.gcr.io`, `europe-docker.pkg.dev`, … */
export function isGoogleRegistry(host: string): boolean {
  const name = host.replace(/:\d+$/, "");
  return ["gcr.io", "pkg.dev", "google.com"].some((domain) => name === domain || name.endsWith(`.${domain}`));
}

interface Held {
  /** Undefined: this machine has no such credentials. */
  readonly token: string | undefined;
  readonly until: number;
}

export function googleCredentials(options: GoogleCredentialOptions): CredentialSource {
  const now = options.now ?? Date.now;
  let held: Promise<Held> | undefined;
  const fresh = (): Promise<Held> => {
    const asking = fetchToken(options, now);
    asking.catch(() => {
      if (held === asking) held = undefined;
    });
    held = asking;
    return asking;
  };
  return {
    async find(host, { signal }) {
      if (!isGoogleRegistry(host)) return anonymous;
      const known = held ?? fresh();
      let found = await orAborted(known, { signal });
      // Of many who find it at its end only the first fetches another.
      if (found.until <= now()) found = await orAborted(held && held !== known ? held : fresh(), { signal });
      return found.token === undefined ? anonymous : { kind: "basic", username, password: found.token };
    },
  };
}

/** How long "there are none" is believed: a machine may learn its account a little after it started. */
const noneMs = 5 * 60_000;

/** Throws when this machine has credentials that do not work. */
async function fetchToken(options: GoogleCredentialOptions, now: () => number): Promise<Held> {
  const started = now();
  const signal = withDeadline(new AbortController().signal, exchangeMs);
  const file = await findFile(options);
  const answer = file ? await trade(file, started, signal) : await askMachine(options, signal);
  if (!answer) return { token: undefined, until: started + noneMs };
  const lifeMs = (answer.expires_in ?? 60) * 1000;
  return { token: answer.access_token, until: started + lifeMs - Math.min(lifeMs / 10, 60_000) };
}

async function findFile(options: GoogleCredentialOptions): Promise<CredentialFile | undefined> {
  const named = options.file || undefined;
  const path = named ?? options.usualFile ?? usualPath();
  const text = await tryReadFile(path);
  if (text === undefined && named === undefined) return undefined;
  if (text === undefined) throw new Fault("invalid", `GOOGLE_APPLICATION_CREDENTIALS: no file ${path}`);
  const parsed = fileSchema.safeParse(tryParseJson(text));
  if (parsed.success) return parsed.data;
  // Not quoted: the file holds a key.
  const where = [...new Set(parsed.error.issues.map((issue) => issue.path.join(".") || "content"))].join(
    ", ",
  );
  throw new Fault(
    "invalid",
    `${path} is no Google credential of type service_account or authorized_user: see ${where}`,
  );
}

function usualPath(): string {
  return join(homedir(), ".config/gcloud/application_default_credentials.json");
}

type Token = z.output<typeof tokenSchema>;

async function trade(file: CredentialFile, nowMs: number, signal: AbortSignal): Promise<Token> {
  const uri = readTokenUri(file);
  const form =
    file.type === "authorized_user"
      ? {
          grant_type: "refresh_token",
          client_id: file.client_id,
          client_secret: file.client_secret,
          refresh_token: file.refresh_token,
        }
      : {
          grant_type: "urn:ietf:params:oauth:grant-type:jwt-bearer",
          assertion: signAssertion(file, { audience: uri.href, nowMs }),
        };
  return ask(uri, { method: "POST", body: new URLSearchParams(form), signal });
}

/** Keys are sent unencrypted to this machine only. */
function readTokenUri({ token_uri: text = defaultTokenUri }: CredentialFile): URL {
  const uri = URL.parse(text);
  const isSafe = uri?.protocol === "https:" || (uri?.protocol === "http:" && isLoopbackHost(uri.hostname));
  if (uri && isSafe) return uri;
  throw new Fault("invalid", "Google credential: token_uri must be an https address");
}

/** A statement that we are this account, signed with its key, good for an hour. */
function signAssertion(
  file: Extract<CredentialFile, { type: "service_account" }>,
  { audience, nowMs }: { readonly audience: string; readonly nowMs: number },
): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const issuedAt = Math.floor(nowMs / 1000);
  const header = { alg: "RS256", typ: "JWT", ...(file.private_key_id ? { kid: file.private_key_id } : {}) };
  const claims = { iss: file.client_email, scope, aud: audience, iat: issuedAt, exp: issuedAt + 3600 };
  const text = `${encode(header)}.${encode(claims)}`;
  try {
    const signature = sign("RSA-SHA256", Buffer.from(text), createPrivateKey(file.private_key));
    return `${text}.${signature.toString("base64url")}`;
  } catch {
    throw new Fault("invalid", "Google credential: private_key is no RSA key in PEM form");
  }
}

/** No server at that address means that this is not one of Google's machines. */
async function askMachine(
  { metadataHost = defaultMetadataHost }: GoogleCredentialOptions,
  signal: AbortSignal,
): Promise<Token | undefined> {
  if (metadataHost === "") return undefined;
  const uri = new URL(
    `http://${metadataHost}/computeMetadata/v1/instance/service-accounts/default/token?scopes=${encodeURIComponent(scope)}`,
  );
  const headers = { "Metadata-Flavor": "Google" };
  let response: Response;
  try {
    response = await fetch(uri, { headers, redirect: "error", signal: withDeadline(signal, metadataMs) });
  } catch {
    return undefined;
  }
  if (response.status === 404 || response.headers.get("metadata-flavor") !== "Google") {
    await response.body?.cancel();
    return undefined; // no account, or another server has that address
  }
  return readToken(response, uri);
}

async function ask(uri: URL, init: RequestInit): Promise<Token> {
  try {
    return await readToken(await fetch(uri, { ...init, redirect: "error" }), uri);
  } catch (error) {
    if (error instanceof Fault) throw error;
    throw new Fault(
      "unavailable",
      `Google's token service ${uri.host} cannot be asked: ${getErrorMessage(error)}`,
      {
        cause: error,
      },
    );
  }
}

async function readToken(response: Response, { host }: URL): Promise<Token> {
  const text = (await response.text()).slice(0, answerBytes);
  if (!response.ok) {
    const refused = response.status >= 400 && response.status < 500 && response.status !== 429;
    const { error } = z.looseObject({ error: z.string().max(100) }).safeParse(tryParseJson(text)).data ?? {};
    const reason = error === undefined ? "" : ` (${error})`;
    throw new Fault(
      refused ? "unauthorized" : "unavailable",
      `Google's token service ${host} answered ${response.status}${reason}`,
    );
  }
  const parsed = tokenSchema.safeParse(tryParseJson(text));
  // Not quoted: a malformed answer may still hold a token.
  if (!parsed.success) throw new Fault("unavailable", `Google's token service ${host} gave no token`);
  return parsed.data;
}

/** The first source that has something to offer. */
export function firstCredential(sources: readonly CredentialSource[]): CredentialSource {
  return {
    async find(host: string, options: Abortable) {
      for (const source of sources) {
        const found = await source.find(host, options);
        if (found.kind !== "anonymous") return found;
      }
      return anonymous;
    },
  };
}
