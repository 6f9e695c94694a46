/** The dashboard's server in front of a real API server: who may do what, and what an attacker gets. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { annotation, hostTaint } from "@cocoon/contract";
import { customResourceDefinitions } from "@cocoon/contract/crd";
import { eventually, sharedControlPlane, type TestCluster } from "@cocoon/testkit";
import { WebSocket } from "ws";
import type { LiveChange } from "../../../packages/dashboard/src/shared/rows.ts";
import { attack, createUser, startTestDashboard, TestBrowser } from "./browser.ts";

const pods = (namespace: string) => `/api/k8s/api/v1/namespaces/${namespace}/pods`;

test("a token signs in, a wrong one does not, and the token is never readable in the browser", async (t) => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  const token = await createUser(cluster, { namespace: namespace.name, name: "alice", rules: [] });
  await using dashboard = await startTestDashboard({ cluster, signal: t.signal });
  const browser = new TestBrowser(dashboard.url);
  assert.equal((await browser.send("/api/me")).status, 401);
  const wrong = await browser.send("/auth/token", {
    method: "POST",
    body: JSON.stringify({ token: "not-a-token-at-all" }),
  });
  assert.equal(wrong.status, 401);
  assert.equal(browser.cookies.size, 0);
  await browser.signIn(token);
  const me = (await (await browser.send("/api/me")).json()) as { readonly user: string };
  assert.equal(me.user, `system:serviceaccount:${namespace.name}:alice`);
  assert.ok(!browser.cookieHeader().includes(token));
  await browser.send("/auth/sign-out", { method: "POST" });
  assert.equal((await browser.send("/api/me")).status, 401);
});

test("each user has exactly the own rights; the server's own are never used", async (t) => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  await createPod(cluster, { namespace: namespace.name, name: "one" });
  const reader = { namespace: namespace.name, name: "reader", rules: [["get,list,watch", "pods"]] as const };
  const writer = {
    namespace: namespace.name,
    name: "writer",
    rules: [["get,list,watch,delete", "pods"]] as const,
  };
  const tokens = await Promise.all([reader, writer].map((user) => createUser(cluster, user)));
  await using dashboard = await startTestDashboard({ cluster, signal: t.signal });
  const [reading, writing] = tokens.map(() => new TestBrowser(dashboard.url)) as [TestBrowser, TestBrowser];
  await reading.signIn(tokens[0] ?? "");
  await writing.signIn(tokens[1] ?? "");
  assert.equal((await reading.send(`${pods(namespace.name)}/one`)).status, 200);
  assert.equal((await reading.send(`${pods("kube-system")}/one`)).status, 403);
  assert.equal((await reading.send(`${pods(namespace.name)}/one`, { method: "DELETE" })).status, 403);
  assert.equal((await writing.send(`${pods(namespace.name)}/one`, { method: "DELETE" })).status, 200);
});

test("changed cookies, requests of other sites and paths that are not for the page are refused", async (t) => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  await createPod(cluster, { namespace: namespace.name, name: "kept" });
  const rules = [
    ["*", "pods"],
    ["create", "pods/exec"],
  ] as const;
  const token = await createUser(cluster, { namespace: namespace.name, name: "owner", rules });
  await using dashboard = await startTestDashboard({ cluster, signal: t.signal });
  const browser = new TestBrowser(dashboard.url);
  await browser.signIn(token);
  const target = `${pods(namespace.name)}/kept`;
  const statuses = async (...requests: [string, RequestInit & { own?: boolean }][]) =>
    Promise.all(requests.map(async ([path, init]) => (await browser.send(path, init)).status));
  assert.deepEqual(
    await statuses(
      [target, { method: "DELETE", own: false }],
      [target, { method: "DELETE", headers: { origin: "http://evil.example" } }],
      [target, { method: "DELETE", headers: { "sec-fetch-site": "cross-site" } }],
      [`${target}/proxy/`, {}],
      [`/api/k8s/api/v1/namespaces/${namespace.name}/secrets`, {}],
      [`/api/k8s/api/v1/namespaces/${namespace.name}/pods%2fkept`, {}],
    ),
    [403, 403, 403, 404, 404, 400],
  );
  await assertSocketRefused(browser, `${target}/exec?command=id&stdout=true`, "http://evil.example");
  const good = browser.cookies.get("cocoon_session") ?? "";
  browser.cookies.set(
    "cocoon_session",
    `${good.slice(0, 10)}${good[10] === "A" ? "B" : "A"}${good.slice(11)}`,
  );
  assert.equal((await browser.send(target)).status, 401);
  const kept = await cluster.kubectl(["-n", namespace.name, "get", "pod", "kept"]);
  assert.equal(kept.code, 0, "no attack deleted it");
});

test("why a stream was refused stands in the stream, because a browser reads no other answer", async (t) => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  await createPod(cluster, { namespace: namespace.name, name: "one" });
  const token = await createUser(cluster, {
    namespace: namespace.name,
    name: "reader",
    rules: [["get,list", "pods"]],
  });
  await using dashboard = await startTestDashboard({ cluster, signal: t.signal });
  const browser = new TestBrowser(dashboard.url);
  await browser.signIn(token);
  const path = `${pods(namespace.name)}/one/exec?command=id&stdout=true`;
  const socket = new WebSocket(browser.url.replace("http", "ws") + path, ["v5.channel.k8s.io"], {
    headers: { cookie: browser.cookieHeader() },
    origin: dashboard.url,
  });
  const [message] = (await once(socket, "message")) as [Buffer];
  assert.equal(message[0], 3);
  assert.match(message.subarray(1).toString(), /cannot (get|create) resource .*pods\/exec/);
  await once(socket, "close");
});

test("answers carry the strict policy, and what comes from machines is never a page", async (t) => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  await createPod(cluster, {
    namespace: namespace.name,
    name: "evil",
    annotations: { [annotation.image]: attack },
  });
  const token = await createUser(cluster, {
    namespace: namespace.name,
    name: "u",
    rules: [["get,list,watch", "pods"]],
  });
  await using dashboard = await startTestDashboard({ cluster, signal: t.signal });
  const browser = new TestBrowser(dashboard.url);
  const page = await browser.send("/machines/a/b.c");
  const policy = page.headers.get("content-security-policy") ?? "";
  assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self' 'nonce-/);
  assert.doesNotMatch(policy, /unsafe|\*|https?:/);
  assert.equal(page.headers.get("x-frame-options"), "DENY");
  const html = await page.text();
  assert.doesNotMatch(html, /<script(?![^>]*src=)/, "no inline script");
  assert.doesNotMatch(html, /(src|href)="(https?:)?\/\//, "nothing from elsewhere");
  await browser.signIn(token);
  const answer = await browser.send(`${pods(namespace.name)}/evil`);
  assert.match(answer.headers.get("content-type") ?? "", /^application\/json/);
  assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
});

test("the live stream shows what is there, every change, and only what the user may see", async (t) => {
  const cluster = await sharedControlPlane();
  await installDefinitions(cluster);
  await using namespace = await cluster.newNamespace();
  await createPod(cluster, { namespace: namespace.name, name: "first" });
  const token = await createUser(cluster, {
    namespace: namespace.name,
    name: "u",
    rules: [["get,list,watch", "pods"]],
  });
  await using dashboard = await startTestDashboard({ cluster, signal: t.signal });
  const browser = new TestBrowser(dashboard.url);
  await browser.signIn(token);
  using live = followLive(browser, `?namespace=${namespace.name}`);
  await eventually(() => assert.ok(live.has("put", "first")), { timeoutMs: 20_000 });
  assert.ok(live.changes.some((each) => each.op === "denied" && each.kind === "node"));
  await createPod(cluster, {
    namespace: namespace.name,
    name: "second",
    annotations: { [annotation.image]: attack },
  });
  await eventually(() => assert.ok(live.has("put", "second")), { timeoutMs: 20_000 });
  await cluster.kubectl(["-n", namespace.name, "delete", "pod", "first", "--now"]);
  await eventually(
    () => assert.ok(live.changes.some((each) => each.op === "delete" && each.name === "first")),
    { timeoutMs: 20_000 },
  );
  using other = followLive(browser, "?namespace=default");
  await eventually(
    () => assert.ok(other.changes.some((each) => each.op === "denied" && each.kind === "machine")),
    { timeoutMs: 20_000 },
  );
});

test("a read-only dashboard changes nothing, whatever the user may do", async (t) => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  await createPod(cluster, { namespace: namespace.name, name: "kept" });
  const token = await createUser(cluster, {
    namespace: namespace.name,
    name: "owner",
    rules: [["*", "pods"]],
  });
  await using dashboard = await startTestDashboard({ cluster, signal: t.signal, args: ["--read-only"] });
  const browser = new TestBrowser(dashboard.url);
  await browser.signIn(token);
  const refused = await browser.send(`${pods(namespace.name)}/kept`, { method: "DELETE" });
  assert.equal(refused.status, 403);
  assert.match(await refused.text(), /read-only/);
  assert.equal((await browser.send(`${pods(namespace.name)}/kept`)).status, 200);
  await assertSocketRefused(browser, `${pods(namespace.name)}/kept/exec?command=id`, dashboard.url);
  const target = JSON.stringify({ namespace: namespace.name, machine: "kept", port: 80 });
  assert.equal((await browser.send("/api/port-links", { method: "POST", body: target })).status, 403);
});

test("a port is opened by the gateway with the token of the user, and what it refuses is passed on", async (t) => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  const token = await createUser(cluster, { namespace: namespace.name, name: "opener", rules: [] });
  const asked: unknown[] = [];
  const gateway = createServer(({ method, url, headers }, response) => {
    asked.push([method, url, headers.host, headers["cocoon-token"] === token]);
    const isKnown = headers.host?.startsWith("80-web-0.team.") ?? false;
    response.writeHead(isKnown ? 200 : 403);
    response.end(JSON.stringify(isKnown ? { path: "/.cocoon/open?code=x" } : { message: "may not" }));
  });
  t.after(() => gateway.close());
  await once(gateway.listen(0, "127.0.0.1"), "listening");
  const { port } = gateway.address() as AddressInfo;
  const args = ["--gateway", `http://{port}-{machine}.{namespace}.localhost:${port}`];
  await using dashboard = await startTestDashboard({ cluster, signal: t.signal, args });
  const browser = new TestBrowser(dashboard.url);
  const open = (body: unknown, own = true) =>
    browser.send("/api/port-links", { method: "POST", body: JSON.stringify(body), own });
  const target = { namespace: "team", machine: "web-0", port: 80 };
  assert.equal((await open(target)).status, 401, "before the user signs in");
  await browser.signIn(token);
  assert.equal((await open(target, false)).status, 403, "another site cannot ask for one");
  assert.equal((await open({ ...target, machine: "web-0.evil" })).status, 400);
  assert.deepEqual(asked, []);
  const host = `80-web-0.team.localhost:${port}`;
  assert.deepEqual(await (await open(target)).json(), { url: `http://${host}/.cocoon/open?code=x` });
  assert.deepEqual(asked, [["POST", "/.cocoon/links", host, true]]);
  const refused = await open({ ...target, machine: "other-0" });
  assert.equal(refused.status, 403);
  assert.match(await refused.text(), /the gateway says: may not/);
});

test("a link signs in once", async (t) => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  const token = await createUser(cluster, { namespace: namespace.name, name: "linked", rules: [] });
  await using dashboard = await startTestDashboard({ cluster, signal: t.signal });
  const program = new TestBrowser(dashboard.url);
  const made = await program.send("/auth/link", { method: "POST", body: JSON.stringify({ token }) });
  const { code } = (await made.json()) as { readonly code: string };
  const redeem = (browser: TestBrowser) =>
    browser.send("/auth/redeem", { method: "POST", body: JSON.stringify({ code }) });
  const browser = new TestBrowser(dashboard.url);
  assert.equal((await redeem(browser)).status, 200);
  assert.equal((await browser.send("/api/me")).status, 200);
  assert.equal((await redeem(new TestBrowser(dashboard.url))).status, 401);
});

interface NewPod {
  readonly namespace: string;
  readonly name: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

async function createPod(cluster: TestCluster, { namespace, name, annotations = {} }: NewPod): Promise<void> {
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace, name, annotations },
    spec: {
      automountServiceAccountToken: false,
      tolerations: [{ key: hostTaint.key, operator: "Exists" }],
      containers: [{ name: "agent", image: "none" }],
    },
  };
  const made = await cluster.kubectl(["apply", "-f", "-"], { input: JSON.stringify(pod) });
  assert.equal(made.code, 0, made.stderr);
}

async function installDefinitions(cluster: TestCluster): Promise<void> {
  const list = { apiVersion: "v1", kind: "List", items: customResourceDefinitions() };
  const made = await cluster.kubectl(["apply", "--server-side", "--force-conflicts", "-f", "-"], {
    input: JSON.stringify(list),
  });
  assert.equal(made.code, 0, made.stderr);
}

function followLive(
  browser: TestBrowser,
  query: string,
): Disposable & { readonly changes: LiveChange[]; has(op: string, name: string): boolean } {
  const stop = new AbortController();
  const changes: LiveChange[] = [];
  const read = async () => {
    const response = await browser.send(`/api/live${query}`, { signal: stop.signal });
    let rest = "";
    for await (const text of (response.body ?? []) as AsyncIterable<Uint8Array>) {
      const parts = (rest + new TextDecoder().decode(text)).split("\n\n");
      rest = parts.pop() ?? "";
      for (const part of parts)
        if (part.startsWith("data: ")) changes.push(...(JSON.parse(part.slice(6)) as LiveChange[]));
    }
  };
  read().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  return {
    changes,
    has: (op, name) => changes.some((each) => each.op === op && "row" in each && each.row.name === name),
    [Symbol.dispose]: () => stop.abort(),
  };
}

async function assertSocketRefused(browser: TestBrowser, path: string, origin: string): Promise<void> {
  const socket = new WebSocket(browser.url.replace("http", "ws") + path, ["v5.channel.k8s.io"], {
    headers: { cookie: browser.cookieHeader() },
    origin,
  });
  const [, answer] = (await once(socket, "unexpected-response")) as [
    unknown,
    { readonly statusCode: number },
  ];
  assert.equal(answer.statusCode, 403);
  socket.on("error", () => undefined).terminate();
}
