/**
 * Login for people through an OpenID Connect provider: authorize, exchange the code, ask who it is. What comes out is
 * a signed session cookie; nothing is kept on the server.
 */
import * as z from "zod";
import { Fault, getErrorMessage } from "@cocoon/core";

export interface SsoOptions {
  readonly provider: "google" | "oidc";
  readonly clientId: string;
  readonly clientSecret: string;
  readonly redirectUri: string;
  readonly authorizeUrl: string;
  readonly tokenUrl: string;
  readonly userinfoUrl: string;
  readonly logoutUrl: string | undefined;
  readonly scopes: string;
  /** Domains whose people may come in; empty for all that the provider lets in. */
  readonly allowedDomains: readonly string[];
}

export interface Person {
  readonly user: string;
  readonly email: string;
}

const maxAnswerBytes = 1024 * 1024;
const timeoutMs = 10_000;

const tokenAnswer = z.object({ access_token: z.string().min(1) });
const userinfo = z.object({
  name: z.string().optional(),
  email: z.string().default(""),
  email_verified: z.union([z.boolean(), z.string()]).optional(),
  /** Google's name for the domain an account belongs to. */
  hd: z.string().optional(),
});

export function authorizeLocation(options: SsoOptions, state: string): string {
  const url = new URL(options.authorizeUrl);
  url.searchParams.set("client_id", options.clientId);
  url.searchParams.set("redirect_uri", options.redirectUri);
  url.searchParams.set("response_type", "code");
  url.searchParams.set("scope", options.scopes);
  url.searchParams.set("state", state);
  const [domain, ...others] = options.allowedDomains;
  if (options.provider === "google" && domain !== undefined && others.length === 0)
    url.searchParams.set("hd", domain);
  return url.href;
}

/** The person behind a code; throws `forbidden` for accounts that are not allowed, `unavailable` when the provider fails. */
export async function identify(
  options: SsoOptions,
  code: string,
  { signal }: { signal: AbortSignal },
): Promise<Person> {
  const body = new URLSearchParams({
    grant_type: "authorization_code",
    code,
    client_id: options.clientId,
    client_secret: options.clientSecret,
    redirect_uri: options.redirectUri,
  });
  const exchange = { method: "POST", body, headers: { accept: "application/json" } };
  const { access_token } = tokenAnswer.parse(await ask(options.tokenUrl, exchange, signal));
  const headers = { authorization: `Bearer ${access_token}`, accept: "application/json" };
  const info = userinfo.parse(await ask(options.userinfoUrl, { headers }, signal));
  assertLetIn(options.allowedDomains, info);
  return { user: info.name || info.email, email: info.email };
}

function assertLetIn(
  domains: readonly string[],
  { email, email_verified, hd }: z.infer<typeof userinfo>,
): void {
  if (domains.length === 0) return;
  // An address that the provider did not verify proves nothing about its domain.
  const ofEmail = email_verified === false || email_verified === "false" ? undefined : email.split("@").at(1);
  const own = [hd, ofEmail].map((domain) => domain?.toLowerCase());
  if (!domains.some((domain) => own.includes(domain.toLowerCase())))
    throw new Fault("forbidden", "your account is not of an allowed domain");
}

async function ask(url: string, init: RequestInit, signal: AbortSignal): Promise<unknown> {
  try {
    const response = await fetch(url, {
      ...init,
      redirect: "error",
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    });
    if (!response.ok) throw new Fault("unavailable", `status ${response.status}`);
    return JSON.parse(await readLimited(response));
  } catch (error) {
    throw new Fault(
      "unavailable",
      `the login provider did not answer as expected: ${getErrorMessage(error)}`,
      {
        cause: error,
      },
    );
  }
}

async function readLimited(response: Response): Promise<string> {
  const chunks: Uint8Array[] = [];
  let total = 0;
  const body: AsyncIterable<Uint8Array> | [] = response.body ?? [];
  for await (const chunk of body) {
    total += chunk.length;
    if (total > maxAnswerBytes) throw new Fault("unavailable", "the answer is too long");
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}
