/** Signing in and out: a token is shown to the API server, which says whose it is; nothing here knows users. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { Fault } from "@cocoon/core";
import * as z from "zod";
import type { Upstream } from "../api/upstream.ts";
import { readJson, sendJson } from "../http/answers.ts";
import type { SignInMethods } from "../shared/rows.ts";
import type { OidcLogin } from "./oidc.ts";
import { OneTimeLinks } from "./one-time-links.ts";
import type { SessionCookies } from "./session-cookies.ts";

export interface SignInOptions {
  readonly upstream: Upstream;
  readonly cookies: SessionCookies;
  readonly sessionTimeMs: number;
  /** Undefined: no provider is configured. */
  readonly oidc: OidcLogin | undefined;
  readonly signal: AbortSignal;
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** What a header may carry; it also keeps a pasted kubeconfig out. */
const tokenSchema = z.object({
  token: z
    .string()
    .trim()
    .regex(/^[\x21-\x7e]{8,12000}$/, "paste one token, without spaces"),
});
const codeSchema = z.object({ code: z.string().min(8).max(100) });
const callbackSchema = z.object({ code: z.string().min(1).max(4_096), state: z.string().min(1).max(200) });
const waitSeconds = 600;
const reviewSchema = z.object({ status: z.object({ userInfo: z.object({ username: z.string().min(1) }) }) });
const anonymous = "system:anonymous";

function assertOffered(oidc: OidcLogin | undefined): OidcLogin {
  if (oidc) return oidc;
  throw new Fault("notFound", "no OpenID Connect provider is configured (--oidc-issuer)");
}

export class SignIn {
  readonly #options: SignInOptions;
  readonly #links = new OneTimeLinks();

  constructor(options: SignInOptions) {
    this.#options = options;
  }

  async withToken({ request, response }: Exchange): Promise<void> {
    const { token } = await readJson(request, tokenSchema);
    const user = await this.#identify(token);
    await this.#finish(response, { token, user });
  }

  /** For a program that holds a token and wants to hand it to a browser without showing it: `cocoonctl dashboard`. */
  async createLink({ request, response }: Exchange): Promise<void> {
    const { token } = await readJson(request, tokenSchema);
    const user = await this.#identify(token);
    sendJson(response, 200, { code: this.#links.create({ token, user }), user });
  }

  async withLink({ request, response }: Exchange): Promise<void> {
    const { code } = await readJson(request, codeSchema);
    const login = this.#links.redeem(code);
    if (!login)
      throw new Fault(
        "unauthorized",
        "the link was used before or is too old; run cocoonctl dashboard again",
      );
    await this.#finish(response, login);
  }

  /** What the sign-in page offers. */
  listMethods({ response }: Exchange): void {
    const methods: SignInMethods = { oidc: this.#options.oidc?.name ?? "" };
    sendJson(response, 200, methods);
  }

  async startOidc({ request, response }: Exchange): Promise<void> {
    const { oidc, cookies, signal } = this.#options;
    const { origin } = request.headers;
    // Its host was compared with the request's; the provider knows which addresses it may send browsers to.
    if (origin === undefined) throw new Fault("badRequest", "the request has no origin");
    const { url, sealed } = await assertOffered(oidc).start(`${origin}/oidc`, signal);
    response.setHeader("set-cookie", cookies.writeWaiting(sealed, waitSeconds));
    sendJson(response, 200, { url });
  }

  async finishOidc({ request, response }: Exchange): Promise<void> {
    const { oidc, cookies, signal } = this.#options;
    const answer = await readJson(request, callbackSchema);
    const sealed = cookies.readWaiting(request);
    const token = await assertOffered(oidc).finish({ ...answer, sealed }, signal);
    await this.#finish(response, { token, user: await this.#identify(token) });
  }

  signOut({ response }: Exchange): void {
    response.setHeader("set-cookie", this.#options.cookies.clear());
    sendJson(response, 200, {});
  }

  async #finish(
    response: ServerResponse,
    { token, user }: { readonly token: string; readonly user: string },
  ): Promise<void> {
    const now = Math.floor(Date.now() / 1000);
    const expiresAt = now + Math.floor(this.#options.sessionTimeMs / 1000);
    const { cookies } = this.#options;
    const written = await cookies.write({ user, token, expiresAt }, now);
    response.setHeader("set-cookie", [...written, cookies.writeWaiting("", 0)]);
    sendJson(response, 200, { user, expiresAt });
  }

  /** The user of a token, as the API server sees it. */
  async #identify(token: string): Promise<string> {
    const { upstream, signal } = this.#options;
    const { status, body } = await upstream.json({
      method: "POST",
      path: "/apis/authentication.k8s.io/v1/selfsubjectreviews",
      token,
      contentType: "application/json",
      body: Buffer.from(
        JSON.stringify({ apiVersion: "authentication.k8s.io/v1", kind: "SelfSubjectReview" }),
      ),
      signal,
    });
    const review = reviewSchema.safeParse(body);
    const user = review.success ? review.data.status.userInfo.username : undefined;
    if (status < 300 && user !== undefined && user !== anonymous) return user;
    if (status === 401 || user === anonymous)
      throw new Fault("unauthorized", "the API server does not accept this token");
    throw new Fault("unavailable", `the API server answered ${status} when asked whose token this is`);
  }
}
