/** Signing in at an OpenID Connect provider, and what of it can be forged. The provider is ours; its ID token is one that the API server accepts. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { startHttpServer, type RunningServer } from "@cocoon/core";
import { sharedControlPlane } from "@cocoon/testkit";
import { createUser, startTestDashboard, TestBrowser } from "./browser.ts";

interface Provider extends AsyncDisposable {
  readonly url: string;
  /** What a user does who logs in there: the address that the browser is sent back to. */
  logIn(address: string): URL;
}

/** Gives the token for a code once, and only to who knows what the challenge was made of. */
async function startProvider(idToken: string): Promise<Provider> {
  const waiting = new Map<string, URLSearchParams>();
  const running: { server?: RunningServer } = {};
  const server = await startHttpServer({
    name: "provider",
    host: "127.0.0.1",
    port: 0,
    handler: (request, response) => {
      const send = (status: number, body: unknown) =>
        response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
      const base = running.server?.url ?? "";
      if (request.url === "/.well-known/openid-configuration") {
        send(200, {
          issuer: base,
          authorization_endpoint: `${base}/authorize`,
          token_endpoint: `${base}/token`,
        });
        return;
      }
      void readForm(request).then((form) => {
        const asked = waiting.get(form.get("code") ?? "");
        waiting.delete(form.get("code") ?? "");
        const challenge = createHash("sha256")
          .update(form.get("code_verifier") ?? "")
          .digest("base64url");
        const isKnown =
          asked?.get("code_challenge") === challenge &&
          asked.get("redirect_uri") === form.get("redirect_uri") &&
          form.get("client_secret") === "hush";
        return isKnown
          ? send(200, { id_token: idToken })
          : send(400, { error: "invalid_grant", error_description: "the code is not valid" });
      });
    },
  });
  running.server = server;
  return {
    url: server.url,
    logIn: (address) => {
      const { searchParams } = new URL(address);
      const code = `code-${waiting.size}`;
      waiting.set(code, searchParams);
      const back = new URL(searchParams.get("redirect_uri") ?? "");
      back.search = new URLSearchParams({ code, state: searchParams.get("state") ?? "" }).toString();
      return back;
    },
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

async function readForm(request: AsyncIterable<Buffer>): Promise<URLSearchParams> {
  let text = "";
  for await (const piece of request) text += piece.toString();
  return new URLSearchParams(text);
}

test("a provider's ID token signs in; a code of another browser, a changed state and a used code do not", async (t) => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  const token = await createUser(cluster, { namespace: namespace.name, name: "person", rules: [] });
  await using provider = await startProvider(token);
  const args = ["--oidc-issuer", provider.url, "--oidc-client-id", "page", "--oidc-client-secret", "hush"];
  await using dashboard = await startTestDashboard({ cluster, signal: t.signal, args });
  const start = async (browser: TestBrowser) => {
    const headers = { origin: dashboard.url };
    const answer = await browser.send("/auth/oidc/start", { method: "POST", headers });
    assert.equal(answer.status, 200, await answer.clone().text());
    return ((await answer.json()) as { readonly url: string }).url;
  };
  const finish = async (browser: TestBrowser, back: URL) =>
    browser.send("/auth/oidc/finish", {
      method: "POST",
      body: JSON.stringify(Object.fromEntries(back.searchParams)),
    });
  const browser = new TestBrowser(dashboard.url);
  const methods = await browser.send("/auth/methods", { method: "POST" });
  assert.deepEqual(await methods.json(), { oidc: new URL(provider.url).host });
  const back = provider.logIn(await start(browser));
  assert.equal(back.origin + back.pathname, `${dashboard.url}/oidc`);
  assert.equal((await browser.send(back.pathname + back.search)).status, 200, "the page takes it from there");

  const victim = new TestBrowser(dashboard.url);
  assert.equal((await finish(victim, back)).status, 401, "a login that the browser did not start");
  await start(victim);
  assert.equal((await finish(victim, back)).status, 401, "a code and state of another browser");
  const changed = new URL(back);
  changed.searchParams.set("state", "other-state");
  assert.equal((await finish(browser, changed)).status, 401);
  assert.equal(victim.cookies.has("cocoon_session"), false);

  const signedIn = await finish(browser, back);
  assert.equal(signedIn.status, 200, await signedIn.text());
  const me = (await (await browser.send("/api/me")).json()) as { readonly user: string };
  assert.equal(me.user, `system:serviceaccount:${namespace.name}:person`);
  assert.equal(browser.cookies.get("cocoon_oidc"), "", "what was kept for the login is gone");

  const again = new TestBrowser(dashboard.url);
  const spent = provider.logIn(await start(again));
  assert.equal((await finish(again, spent)).status, 200);
  const cookie = again.cookies.get("cocoon_oidc");
  assert.equal(cookie, "");
  assert.equal((await finish(again, spent)).status, 401, "the same code a second time");
});

test("without a provider the page offers none", async (t) => {
  const cluster = await sharedControlPlane();
  await using dashboard = await startTestDashboard({ cluster, signal: t.signal });
  const browser = new TestBrowser(dashboard.url);
  assert.deepEqual(await (await browser.send("/auth/methods", { method: "POST" })).json(), { oidc: "" });
  const headers = { origin: dashboard.url };
  assert.equal((await browser.send("/auth/oidc/start", { method: "POST", headers })).status, 404);
});
