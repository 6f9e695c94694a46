/** Ports of machines that are no sandboxes: by header and by host name, with the caller's rights, over HTTP/1.1 and HTTP/2. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { connect } from "node:http2";
import { request as httpsRequest } from "node:https";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { apiVersion, gatewayKey } from "@cocoon/contract";
import { createAuthority, issueCertificate } from "@cocoon/controlplane";
import { demoImageName } from "@cocoon/images";
import { eventually, ownControlPlane, temporaryDirectory } from "@cocoon/testkit";
import { Sandbox } from "e2b";
import { openGatewayWorld, type GatewayWorld } from "./world.ts";

const cluster = await ownControlPlane();
let world: GatewayWorld;
let token: string;
const set = "web";

async function kubectl(...args: string[]): Promise<string> {
  const ran = await cluster.kubectl(["-n", world.namespace, ...args], { timeoutMs: 240_000 });
  assert.equal(ran.code, 0, ran.stderr);
  return ran.stdout;
}

before(async () => {
  world = await openGatewayWorld(cluster);
  const memory = "128Mi";
  const spec = {
    snapshotPolicy: "never",
    agent: {
      image: demoImageName,
      mode: "run",
      replicas: 0,
      storage: "256Mi",
      resources: { requests: { cpu: "100m", memory }, limits: { cpu: "1", memory } },
    },
  };
  const object = { apiVersion, kind: "CocoonSet", metadata: { name: set }, spec };
  await using directory = await temporaryDirectory();
  const file = join(directory.path, "set.json");
  await writeFile(file, JSON.stringify(object));
  await kubectl("apply", "-f", file);
  await kubectl("wait", `cocoonset/${set}`, "--for=jsonpath={.status.phase}=Running", "--timeout=230s");
  const serve = "mkdir -p /tmp/www && echo page > /tmp/www/index.html && httpd -p 8000 -h /tmp/www";
  await kubectl("exec", `${set}-0`, "--", "sh", "-c", serve);
  token = (await kubectl("create", "token", "cocoon-sandbox")).trim();
});

after(async () => {
  await world[Symbol.asyncDispose]();
  await cluster[Symbol.asyncDispose]();
});

function get(more: Record<string, string> = {}): Promise<Response> {
  const headers = { "Cocoon-Machine": `${world.namespace}/${set}-0`, "Cocoon-Port": "8000", ...more };
  return fetch(world.url, { headers, signal: AbortSignal.timeout(240_000) });
}

async function requestHttp1(url: string, { ca, host }: { readonly ca: string; readonly host: string }) {
  const sent = httpsRequest(url, { ca, headers: { host, "cocoon-token": token } }).end();
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  answer.resume();
  return { version: answer.httpVersion, status: answer.statusCode };
}

test("a port is reached with a token that has rights on the pod, and with no other", async () => {
  const answer = await get({ "Cocoon-Token": token });
  assert.deepEqual([answer.status, await answer.text()], [200, "page\n"]);
  assert.equal((await get({ "Cocoon-Token": world.key })).status, 200);
  assert.equal((await get()).status, 403);
  assert.equal((await get({ "Cocoon-Token": "no-such-token" })).status, 401);
  const other = (await kubectl("create", "token", "default")).trim();
  assert.equal((await get({ "Cocoon-Token": other })).status, 403);
  const closed = await get({ "Cocoon-Token": token, "Cocoon-Port": "8001" });
  const body = (await closed.json()) as { message: string };
  assert.deepEqual([closed.status, body.message], [502, "The sandbox is running but port is not open"]);
  const unknown = await get({ "Cocoon-Token": token, "Cocoon-Machine": `${world.namespace}/none-0` });
  assert.equal(unknown.status, 502);
});

test("a link opens a port in a browser: once, with a cookie for this port alone", async () => {
  const call = (path: string, method: string, more: Record<string, string> = {}) =>
    fetch(world.url + path, {
      method,
      redirect: "manual",
      headers: { "Cocoon-Machine": `${world.namespace}/${set}-0`, "Cocoon-Port": "8000", ...more },
    });
  assert.equal((await call("/.cocoon/links", "POST")).status, 401);
  const other = (await kubectl("create", "token", "default")).trim();
  assert.equal((await call("/.cocoon/links", "POST", { "Cocoon-Token": other })).status, 403);
  const made = await call("/.cocoon/links", "POST", { "Cocoon-Token": token });
  const { path } = (await made.json()) as { path: string };
  assert.equal((await call(path, "GET", { "Cocoon-Port": "8001" })).status, 403);
  const opened = await call(path, "GET");
  assert.deepEqual([opened.status, opened.headers.get("location")], [303, "/"]);
  assert.equal((await call(path, "GET")).status, 403, "it works once");
  const cookie = (opened.headers.get("set-cookie") ?? "").split(";")[0] ?? "";
  const page = await call("/", "GET", { cookie });
  assert.deepEqual([page.status, await page.text()], [200, "page\n"]);
  assert.equal((await call("/", "GET", { cookie: `${cookie}x` })).status, 403);
  assert.equal((await call("/", "GET", { cookie, "Cocoon-Port": "8001" })).status, 403);
  const foreign = { cookie, origin: "http://1-evil-0.default.localhost" };
  assert.equal((await call("/", "POST", foreign)).status, 403);
});

test("by host name over HTTP/2, also the API of the SDK, and HTTP/1.1 on the same listener", async () => {
  const authority = await createAuthority("gateway test");
  const hosts = ["api.sbx.test", "*.sbx.test", `*.${world.namespace}.sbx.test`, "127.0.0.1"];
  const { certificate, key } = await issueCertificate(authority, {
    commonName: "gateway",
    usage: "server",
    hosts,
  });
  await using directory = await temporaryDirectory();
  const certFile = join(directory.path, "tls.crt");
  const keyFile = join(directory.path, "tls.key");
  await writeFile(certFile, certificate);
  await writeFile(keyFile, key);
  const gateway = await world.newGateway({ domain: "sbx.test:8443", tls: { certFile, keyFile } });
  const session = connect(gateway.server.url, { ca: authority.certificate });
  await once(session, "connect");
  const request = async (headers: Record<string, string>) => {
    const stream = session.request(headers);
    const [answer] = (await once(stream, "response")) as [Record<string, unknown>];
    const text = (await stream.setEncoding("utf8").toArray()).join("");
    return { status: answer[":status"], text };
  };
  const host = `8000-${set}-0.${world.namespace}.sbx.test:8443`;
  const page = await request({ ":path": "/index.html", ":authority": host, "cocoon-token": token });
  assert.deepEqual(page, { status: 200, text: "page\n" });
  const listed = await request({
    ":path": "/v2/sandboxes",
    ":authority": "api.sbx.test",
    "x-api-key": world.key,
  });
  assert.deepEqual(listed, { status: 200, text: "[]" });
  session.close();
  const older = await requestHttp1(gateway.server.url, { ca: authority.certificate, host });
  assert.deepEqual(older, { version: "1.1", status: 200 });
});

test("a sleeping machine is woken only where its set asks for it, once for all requests", async () => {
  await kubectl("patch", "cocoonset", set, "--type=merge", "-p", '{"spec":{"suspend":true}}');
  await kubectl("wait", `cocoonset/${set}`, "--for=jsonpath={.status.phase}=Suspended", "--timeout=230s");
  await eventually(async () => {
    const refused = await get({ "Cocoon-Token": token });
    assert.match(`${refused.status} ${await refused.text()}`, /^502 .*wake-on-traffic/);
  });
  await kubectl("annotate", "cocoonset", set, `${gatewayKey.wakeOnTraffic}=true`);
  await eventually(async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => get({ "Cocoon-Token": token })));
    const seen = await Promise.all(answers.map(async (each) => `${each.status} ${await each.text()}`));
    assert.deepEqual(new Set(seen), new Set(["200 page\n"]));
  });
  const phase = await kubectl("get", "cocoonset", set, "-o", "jsonpath={.status.phase}");
  assert.equal(phase, "Running");
});

test("a port that the set opens to all needs no token; the others stay closed", async () => {
  await kubectl("annotate", "cocoonset", set, `${gatewayKey.publicPorts}=80,8000`);
  await eventually(async () => assert.equal((await get()).status, 200));
  assert.equal((await get({ "Cocoon-Port": "8001" })).status, 403);
  await assert.rejects(Sandbox.connect("web", { ...world.connection, requestTimeoutMs: 10_000 }));
});
