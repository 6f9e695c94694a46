/** Login of people, against a provider that speaks the same protocol on loopback. */
import assert from "node:assert/strict";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "node:test";
import { signSession } from "@cocoon/contract/session";
import type { RegistryOptions } from "@cocoon/registry";
import { Client, startWorld, type Answer } from "./world.ts";

interface Provider extends AsyncDisposable {
  readonly sso: NonNullable<RegistryOptions["sso"]>;
  userinfo: Record<string, unknown>;
  /** Answers like this instead, when set. */
  broken: number | undefined;
  readonly exchanged: URLSearchParams[];
}

async function readAll(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request as AsyncIterable<Buffer>) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}

async function startProvider(more: Partial<NonNullable<RegistryOptions["sso"]>> = {}): Promise<Provider> {
  const exchanged: URLSearchParams[] = [];
  const server = createServer((request, response) => {
    void (async () => {
      if (provider.broken) response.writeHead(provider.broken).end();
      else if (request.url === "/token") {
        const form = new URLSearchParams(await readAll(request));
        exchanged.push(form);
        if (form.get("code") === "good") response.end(JSON.stringify({ access_token: "access" }));
        else response.writeHead(400).end();
      } else if (request.headers.authorization === "Bearer access")
        response.end(JSON.stringify(provider.userinfo));
      else response.writeHead(401).end();
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const provider: Provider = {
    sso: {
      provider: "oidc",
      clientId: "client",
      clientSecret: "client-secret",
      redirectUri: "https://registry.example/login/callback",
      authorizeUrl: `${base}/authorize`,
      tokenUrl: `${base}/token`,
      userinfoUrl: `${base}/userinfo`,
      logoutUrl: undefined,
      scopes: "openid profile email",
      allowedDomains: [],
      ...more,
    },
    userinfo: { name: "Alice", email: "alice@example.com" },
    broken: undefined,
    exchanged,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return provider;
}

function cookies(answer: Answer): Record<string, string> {
  return Object.fromEntries(
    answer.headers.getSetCookie().map((line) => {
      const pair = line.split(";")[0] ?? "";
      return [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)];
    }),
  );
}

/** Goes through a login; the answer of the callback. */
async function logIn(client: Client, code = "good"): Promise<Answer> {
  const start = await client.get("/login");
  assert.equal(start.status, 302);
  const state = new URL(start.headers.get("location") ?? "").searchParams.get("state") ?? "";
  assert.match(state, /^[0-9a-f]{32}$/);
  return client.get(`/login/callback?code=${code}&state=${state}`, {
    cookie: `sso_state=${cookies(start)["sso_state"]}`,
  });
}

describe("login", () => {
  it("leads there and back, and then lets the person administer", async () => {
    await using provider = await startProvider();
    await using world = await startWorld({ sso: provider.sso });
    const browser = new Client(world.registry.url);
    const start = await browser.get("/login");
    const target = new URL(start.headers.get("location") ?? "");
    assert.equal(`${target.origin}${target.pathname}`, provider.sso.authorizeUrl);
    assert.deepEqual(
      [...target.searchParams.keys()],
      ["client_id", "redirect_uri", "response_type", "scope", "state"],
    );
    assert.match(
      start.headers.getSetCookie()[0] ?? "",
      /^sso_state=[0-9a-f]{32}; Path=\/; Max-Age=300; HttpOnly; SameSite=Lax$/,
    );
    const back = await logIn(browser);
    assert.equal(back.status, 302);
    assert.equal(back.headers.get("location"), "/");
    assert.equal(provider.exchanged[0]?.get("client_secret"), "client-secret");
    const cookie = `epoch_session=${cookies(back)["epoch_session"]}`;
    assert.deepEqual((await browser.get("/auth/me", { cookie })).json(), {
      user: "Alice",
      email: "alice@example.com",
    });
    assert.equal((await browser.get("/api/tokens", { cookie })).status, 200);
    const made = await browser.post("/api/tokens", {
      body: JSON.stringify({ name: "x" }),
      headers: { cookie },
    });
    assert.equal(made.status, 201);
    const tokens = (await browser.get("/api/tokens", { cookie })).json() as {
      name: string;
      createdBy: string;
    }[];
    assert.equal(tokens.find((each) => each.name === "x")?.createdBy, "user:alice@example.com");
    assert.equal((await browser.get("/", { cookie })).status, 200);
    const out = await browser.get("/logout", { cookie });
    assert.match(out.headers.getSetCookie()[0] ?? "", /^epoch_session=; Path=\/; Max-Age=0/);
  });

  it("refuses sessions that it did not sign", async () => {
    await using provider = await startProvider();
    const cookieSecret = Buffer.alloc(32, 7);
    await using world = await startWorld({ sso: provider.sso, cookieSecret });
    const browser = new Client(world.registry.url);
    const expiresAt = Math.floor(Date.now() / 1_000) + 1_000;
    const person = { user: "a", email: "a@b" };
    const signed = (key: Buffer, x: number) => signSession({ ...person, expiresAt: x }, key);
    const status = async (value: string) =>
      (await browser.get("/api/tokens", { cookie: `epoch_session=${value}` })).status;
    assert.equal(await status(await signed(cookieSecret, expiresAt)), 200);
    assert.equal(await status(await signed(Buffer.alloc(32, 8), expiresAt)), 401, "another key");
    assert.equal(await status(await signed(cookieSecret, 1)), 401, "expired");
    assert.equal(await status(await signed(cookieSecret, 0)), 401, "endless");
    assert.equal(await status("nonsense"), 401);
    const answer = await browser.get("/api/stats");
    assert.deepEqual([answer.status, answer.json()], [401, { error: "login required" }]);
    const home = await browser.get("/");
    assert.deepEqual([home.status, home.headers.get("location")], [302, "/login"]);
  });

  it("refuses session cookies on the routes of registry clients", async () => {
    await using provider = await startProvider();
    const cookieSecret = Buffer.alloc(32, 7);
    await using world = await startWorld({ sso: provider.sso, cookieSecret });
    const browser = new Client(world.registry.url);
    const expiresAt = Math.floor(Date.now() / 1_000) + 1_000;
    const session = await signSession({ user: "a", email: "a@b", expiresAt }, cookieSecret);
    const cookie = `epoch_session=${session}`;
    assert.equal((await browser.get("/api/tokens", { cookie })).status, 200, "the session is valid");
    const before = (await world.client.get("/v2/_catalog")).json();
    const manifest = "/v2/a/b/manifests/latest";
    for (const path of ["/v2/", "/v2/_catalog", "/v2/a/b/tags/list", manifest, "/v2/token"])
      assert.equal((await browser.get(path, { cookie })).status, 401, path);
    const pushed = await browser.post("/v2/a/b/blobs/uploads/", { headers: { cookie } });
    assert.deepEqual([pushed.status, pushed.headers.get("location")], [401, null]);
    assert.deepEqual((await world.client.get("/v2/_catalog")).json(), before);
  });

  it("does not let another page act in the person's name", async () => {
    await using provider = await startProvider();
    const cookieSecret = Buffer.alloc(32, 7);
    await using world = await startWorld({ sso: provider.sso, cookieSecret });
    const browser = new Client(world.registry.url);
    const session = await signSession(
      { user: "a", email: "a@b", expiresAt: Math.floor(Date.now() / 1_000) + 100 },
      cookieSecret,
    );
    const cookie = `epoch_session=${session}`;
    const from = async (origin: string) =>
      (await browser.post("/api/tokens", { body: '{"name":"x"}', headers: { cookie, origin } })).status;
    assert.equal(await from("https://evil.example"), 401);
    assert.equal(await from(world.registry.url), 201);
  });

  it("refuses a callback that was not started here, has no code, or a wrong one", async () => {
    await using provider = await startProvider();
    await using world = await startWorld({ sso: provider.sso });
    const browser = new Client(world.registry.url);
    assert.equal((await browser.get("/login/callback?code=good&state=x")).status, 403);
    assert.equal(
      (await browser.get("/login/callback?code=good&state=x", { cookie: "sso_state=y" })).status,
      403,
    );
    assert.equal((await browser.get("/login/callback?state=y", { cookie: "sso_state=y" })).status, 400);
    assert.equal((await logIn(browser, "wrong")).status, 502);
    provider.broken = 500;
    assert.equal((await logIn(browser)).status, 502);
  });

  it("lets in only people of the allowed domains", async () => {
    await using provider = await startProvider({ provider: "google", allowedDomains: ["Example.com"] });
    await using world = await startWorld({ sso: provider.sso });
    const browser = new Client(world.registry.url);
    const location = new URL((await browser.get("/login")).headers.get("location") ?? "");
    assert.equal(location.searchParams.get("hd"), "Example.com");
    const outcomes: [Record<string, unknown>, number][] = [
      [{ email: "a@example.com" }, 302],
      [{ email: "a@elsewhere.org", hd: "EXAMPLE.com" }, 302],
      [{ email: "a@elsewhere.org" }, 403],
      [{ email: "a@notexample.com" }, 403],
      [{ email: "a@example.com", email_verified: false }, 403],
      [{}, 403],
    ];
    for (const [userinfo, status] of outcomes) {
      provider.userinfo = userinfo;
      assert.equal((await logIn(browser)).status, status, JSON.stringify(userinfo));
    }
  });

  it("is not there when it is not configured", async () => {
    await using world = await startWorld();
    for (const path of ["/login", "/login/callback", "/logout"])
      assert.equal((await new Client(world.registry.url).get(path)).status, 404, path);
  });
});
