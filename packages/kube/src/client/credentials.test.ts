import assert from "node:assert/strict";
import dns from "node:dns";
import { chmod, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { isFault, type FaultCode } from "@cocoon/core";
import { eventually } from "@cocoon/testkit";
import { pods } from "../builtin.ts";
import type { KubeClient } from "./client.ts";
import { openKubeClient } from "./open-client.ts";
import {
  clientName,
  sendJson,
  startFakeApiServer,
  statusBody,
  type FakeApiServer,
} from "../testing/fake-api-server.ts";
import { testAuthority } from "../testing/test-certificates.ts";

const { signal } = new AbortController();

async function refused(
  promise: Promise<unknown>,
  code: FaultCode,
  ...parts: readonly RegExp[]
): Promise<void> {
  await assert.rejects(promise, (error) => {
    assert.ok(isFault(error, code), `${code} expected: ${String(error)}`);
    for (const part of parts) assert.match(error.message, part);
    return true;
  });
}

/** Says who the caller is: the name in its certificate, and its Authorization header. */
function startMirror(): Promise<FakeApiServer> {
  return startFakeApiServer(
    (request, response) => {
      if (request.url === "/lines") {
        const timer = setInterval(() => response.write("line\n"), 50);
        response.on("close", () => clearInterval(timer));
        return;
      }
      const { authorization } = request.headers;
      sendJson(response, 200, { who: clientName(request), authorization, headers: request.headers });
    },
    { requestCert: true },
  );
}

interface Reflection {
  readonly who?: string;
  readonly authorization?: string;
  readonly headers: Readonly<Record<string, string>>;
}

async function look(client: KubeClient): Promise<Reflection> {
  return (await client.raw({ method: "GET", path: "/", signal })) as Reflection;
}

async function writePair(server: FakeApiServer, name: string): Promise<{ cert: string; key: string }> {
  const pair = await server.authority.issue(`CN=${name}`);
  const cert = join(server.directory, "me.crt");
  const key = join(server.directory, "me.key");
  await writeFile(`${cert}.new`, pair.cert);
  await writeFile(`${key}.new`, pair.key);
  await rename(`${cert}.new`, cert);
  await rename(`${key}.new`, key);
  return { cert, key };
}

test("tokens, passwords and impersonation reach the server", async () => {
  await using server = await startMirror();
  const open = async (user: Record<string, unknown>) =>
    openKubeClient({ kubeconfig: await server.kubeconfig({ user }), signal });
  await using token = await open({ token: "abc" });
  assert.equal((await look(token)).authorization, "Bearer abc");
  await using password = await open({ username: "ann", password: "pw" });
  assert.equal((await look(password)).authorization, `Basic ${Buffer.from("ann:pw").toString("base64")}`);
  await using other = await open({ token: "abc", as: "bob", "as-groups": ["x", "y"] });
  const { headers } = await look(other);
  assert.equal(headers["impersonate-user"], "bob");
  assert.equal(headers["impersonate-group"], "x, y");
});

test("a token file is read again when it is replaced, as in a pod", async () => {
  await using server = await startMirror();
  const file = join(server.directory, "token");
  await writeFile(file, "first\n");
  const kubeconfig = await server.kubeconfig({ user: { tokenFile: "token" } });
  await using client = await openKubeClient({ kubeconfig, signal });
  assert.equal((await look(client)).authorization, "Bearer first");
  await writeFile(`${file}.new`, "second");
  await rename(`${file}.new`, file);
  await eventually(async () => assert.equal((await look(client)).authorization, "Bearer second"));
});

test("a refused token is read again at once and the request repeated", async () => {
  const seen: (string | undefined)[] = [];
  await using server = await startFakeApiServer((request, response) => {
    seen.push(request.headers.authorization);
    const good = request.headers.authorization === "Bearer second";
    sendJson(response, good ? 200 : 401, good ? { metadata: {} } : statusBody(401, "Unauthorized"));
  });
  const file = join(server.directory, "token");
  await writeFile(file, "first");
  const kubeconfig = await server.kubeconfig({ user: { tokenFile: file } });
  await using client = await openKubeClient({ kubeconfig, signal });
  await writeFile(file, "second");
  await client.get(pods, { namespace: "a", name: "b" }, { signal });
  assert.deepEqual(seen, ["Bearer first", "Bearer second"]);
  await writeFile(file, "third");
  await eventually(() =>
    refused(
      client.get(pods, { namespace: "a", name: "b" }, { signal }),
      "unauthorized",
      /does not accept the token in .*token of context "here" of .*kubeconfig/,
    ),
  );
});

test("client certificates are read again when the files change; running streams stay", async () => {
  await using server = await startMirror();
  const { cert, key } = await writePair(server, "old");
  const kubeconfig = await server.kubeconfig({ user: { "client-certificate": cert, "client-key": key } });
  await using client = await openKubeClient({ kubeconfig, signal });
  assert.equal((await look(client)).who, "old");
  const lines = await client.stream({ path: "/lines", verb: "watch", resource: "x", signal });
  await writePair(server, "new");
  await eventually(async () => assert.equal((await look(client)).who, "new"));
  let received = 0;
  for await (const chunk of lines.chunks) {
    received += chunk.length;
    if (received > 500) break;
  }
  // Half of a rotation, or rubbish: what works goes on.
  await writeFile(cert, "-----BEGIN CERT");
  await new Promise((resolve) => setTimeout(resolve, 1100));
  assert.equal((await look(client)).who, "new");
  await writePair(server, "newer");
  await eventually(async () => assert.equal((await look(client)).who, "newer"));
});

test("mistakes in certificates and keys name their field", async () => {
  await using server = await startMirror();
  const { cert, key } = await server.authority.issue("CN=me");
  const stranger = await server.authority.issue("CN=stranger");
  const data = (text: string) => Buffer.from(text).toString("base64");
  const open = async (parts: Parameters<FakeApiServer["kubeconfig"]>[0]) =>
    openKubeClient({ kubeconfig: await server.kubeconfig(parts), signal });
  const user = (certificate: string, privateKey: string) => ({
    user: { "client-certificate-data": data(certificate), "client-key-data": data(privateKey) },
  });
  await refused(
    open(user("junk", key)),
    "invalid",
    /users\[me\]\.user\.client-certificate-data does not hold/,
  );
  await refused(open(user(cert, "junk")), "invalid", /users\[me\]\.user\.client-key-data does not hold/);
  await refused(
    open(user(cert, stranger.key)),
    "invalid",
    /client-key-data does not belong to the certificate/,
  );
  await refused(open({ user: { "client-key-data": data(key) } }), "invalid", /client-certificate is missing/);
  await refused(
    open({ user: { "client-certificate-data": data(cert) } }),
    "invalid",
    /client-key is missing/,
  );
  await refused(
    open({ user: { "client-certificate": "none.crt", "client-key": "none.key" } }),
    "invalid",
    /users\[me\]\.user\.client-certificate: .*none\.crt cannot be read/,
  );
  await refused(
    open({ cluster: { "certificate-authority-data": data("junk") } }),
    "invalid",
    /clusters\[fake\]\.cluster\.certificate-authority-data does not hold/,
  );
});

test("an expired client certificate is named when the server refuses it", async () => {
  await using server = await startFakeApiServer(
    (_request, response) => sendJson(response, 401, statusBody(401, "Unauthorized")),
    { requestCert: true },
  );
  const expired = await server.authority.issue("CN=me", { expired: true });
  const cert = join(server.directory, "expired.crt");
  const key = join(server.directory, "expired.key");
  await writeFile(cert, expired.cert);
  await writeFile(key, expired.key);
  const kubeconfig = await server.kubeconfig({ user: { "client-certificate": cert, "client-key": key } });
  await using client = await openKubeClient({ kubeconfig, signal });
  await refused(
    client.raw({ method: "GET", path: "/", signal }),
    "unauthorized",
    /client certificate in users\[me\]\.user\.client-certificate \(.*expired\.crt\).* expired at 20.*renew it/,
  );
});

test("a server that cannot be trusted, reached or resolved is reported as such, and always as unavailable", async (t) => {
  await using server = await startMirror();
  const call = async (cluster: Record<string, unknown>, ...parts: readonly RegExp[]) => {
    await using client = await openKubeClient({ kubeconfig: await server.kubeconfig({ cluster }), signal });
    await refused(client.raw({ method: "GET", path: "/", signal }), "unavailable", ...parts);
  };
  const other = Buffer.from((await testAuthority()).ca).toString("base64");
  await call(
    { "certificate-authority-data": other },
    /certificate is not signed by the CA in clusters\[fake\]\.cluster\.certificate-authority-data/,
    /context "here" of .*kubeconfig/,
  );
  await call(
    { "tls-server-name": "elsewhere.example" },
    /tls-server-name/,
    /clusters\[fake\]\.cluster\.server/,
  );
  await call(
    { server: "https://127.0.0.1:1" },
    /127\.0\.0\.1:1/,
    /connection refused/,
    /clusters\[fake\]\.cluster\.server/,
  );
  const unknownHost = Object.assign(new Error("getaddrinfo ENOTFOUND"), { code: "ENOTFOUND" });
  const lookup = t.mock.method(dns, "lookup", (...given: unknown[]) => {
    const answer = given.at(-1) as (error: Error) => void;
    process.nextTick(answer, unknownHost);
  });
  await call({ server: "https://no-such-host.invalid" }, /does not resolve/);
  lookup.mock.restore();
  await using open = await openKubeClient({
    kubeconfig: await server.kubeconfig({
      cluster: { "certificate-authority-data": undefined, "insecure-skip-tls-verify": true },
    }),
    signal,
  });
  assert.equal((await look(open)).authorization, "Bearer t0ken");
});

test("a proxy that is not HTTP is refused by name", async () => {
  await using server = await startMirror();
  const kubeconfig = await server.kubeconfig({ cluster: { "proxy-url": "socks5://127.0.0.1:1080" } });
  await refused(
    openKubeClient({ kubeconfig, signal }),
    "notSupported",
    /clusters\[fake\]\.cluster\.proxy-url/,
  );
});

/** A plugin that counts its runs and prints the credential that a file holds. */
async function writePlugin(
  server: FakeApiServer,
): Promise<{ command: string; credential: string; runs: string }> {
  const command = join(server.directory, "plugin.sh");
  const credential = join(server.directory, "credential.json");
  const runs = join(server.directory, "runs");
  await writeFile(runs, "");
  await writeFile(
    command,
    `#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" >> "${runs}"\nsleep 0.1\necho "problem: $EXTRA" >&2\ncat "${credential}"\n`,
  );
  await chmod(command, 0o755);
  return { command, credential, runs };
}

const execCredential = (status: Record<string, unknown>) =>
  JSON.stringify({ apiVersion: "client.authentication.k8s.io/v1", kind: "ExecCredential", status });

async function readRuns(path: string): Promise<string[]> {
  const { readFile } = await import("node:fs/promises");
  return (await readFile(path, "utf8")).trim().split("\n").filter(Boolean);
}

test("a credential plugin runs once for many calls, and again when its credential ran out or was refused", async () => {
  let accepted = "Bearer one";
  await using server = await startFakeApiServer((request, response) => {
    const good = request.headers.authorization === accepted;
    sendJson(response, good ? 200 : 401, good ? { metadata: {} } : statusBody(401, "Unauthorized"));
  });
  const plugin = await writePlugin(server);
  const later = new Date(Date.now() + 3_600_000).toISOString();
  await writeFile(plugin.credential, execCredential({ token: "one", expirationTimestamp: later }));
  const exec = {
    apiVersion: "client.authentication.k8s.io/v1",
    command: plugin.command,
    provideClusterInfo: true,
  };
  const kubeconfig = await server.kubeconfig({ user: { exec } });
  await using client = await openKubeClient({ kubeconfig, signal });
  const call = () => client.get(pods, { namespace: "a", name: "b" }, { signal });
  await Promise.all(Array.from({ length: 20 }, call));
  const info = await readRuns(plugin.runs);
  assert.equal(info.length, 1);
  const said = JSON.parse(info[0] ?? "") as {
    kind: string;
    spec: { interactive: boolean; cluster: { server: string } };
  };
  assert.equal(said.kind, "ExecCredential");
  assert.equal(said.spec.interactive, false);
  assert.equal(said.spec.cluster.server, server.url);

  // Refused: run again, although its time is not over.
  accepted = "Bearer two";
  const soon = new Date(Date.now() + 1_500).toISOString();
  await writeFile(plugin.credential, execCredential({ token: "two", expirationTimestamp: soon }));
  await call();
  assert.equal((await readRuns(plugin.runs)).length, 2);

  // Expired: run again, without a refused request in between.
  accepted = "Bearer two";
  await eventually(async () => {
    await call();
    assert.ok((await readRuns(plugin.runs)).length >= 3);
  });
});

test("a plugin may hand out a client certificate", async () => {
  await using server = await startMirror();
  const plugin = await writePlugin(server);
  const { cert, key } = await server.authority.issue("CN=by-plugin");
  await writeFile(plugin.credential, execCredential({ clientCertificateData: cert, clientKeyData: key }));
  const kubeconfig = await server.kubeconfig({ user: { exec: { command: plugin.command } } });
  await using client = await openKubeClient({ kubeconfig, signal });
  assert.equal((await look(client)).who, "by-plugin");
});

test("a plugin that fails says why, and what it printed stays secret", async () => {
  await using server = await startMirror();
  const open = async (exec: Record<string, unknown>) =>
    openKubeClient({ kubeconfig: await server.kubeconfig({ user: { exec } }), signal });
  await refused(
    open({ command: "no-such-program-anywhere", installHint: "get it from the shop" }),
    "invalid",
    /users\[me\]\.user\.exec is not installed: no-such-program-anywhere; get it from the shop/,
  );
  const failing = ["-c", "echo 'cannot log in' >&2; exit 3"];
  await refused(open({ command: "sh", args: failing }), "unavailable", /exec \(sh\) failed: cannot log in/);
  await assert.rejects(open({ command: "sh", args: ["-c", "echo s3cret-token"] }), (error) => {
    assert.match(String(error), /did not print an ExecCredential/);
    assert.doesNotMatch(JSON.stringify(error, Object.getOwnPropertyNames(error)), /s3cret/);
    return true;
  });
  await refused(
    open({ command: "sh", args: ["-c", "echo '{}'"] }),
    "unavailable",
    /did not print an ExecCredential/,
  );
  await refused(open({ command: "sh", interactiveMode: "Always" }), "invalid", /terminal/);
});

test("older auth providers work through the Kubernetes library", async () => {
  await using server = await startMirror();
  const later = new Date(Date.now() + 3_600_000).toISOString();
  const provider = { name: "gcp", config: { "access-token": "from-gcp", expiry: later } };
  const kubeconfig = await server.kubeconfig({ user: { "auth-provider": provider } });
  await using client = await openKubeClient({ kubeconfig, signal });
  assert.equal((await look(client)).authorization, "Bearer from-gcp");
});
