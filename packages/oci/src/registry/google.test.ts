import assert from "node:assert/strict";
import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { createServer, type IncomingHttpHeaders } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import { dockerCredentials } from "./credentials.ts";
import { firstCredential, googleCredentials, isGoogleRegistry } from "./google.ts";

const signal = new AbortController().signal;
const registry = "europe-docker.pkg.dev";

interface Asked {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly form: URLSearchParams;
}

/** Google's token endpoint and metadata server, on loopback. */
async function startGoogle(answer: () => { status?: number; body: object; flavor?: string }) {
  const asked: Asked[] = [];
  const server = createServer((request, response) => {
    let text = "";
    request.setEncoding("utf8").on("data", (part: string) => (text += part));
    request.on("end", () => {
      asked.push({ path: request.url ?? "", headers: request.headers, form: new URLSearchParams(text) });
      const { status = 200, body, flavor } = answer();
      const headers = {
        "content-type": "application/json",
        ...(flavor ? { "metadata-flavor": flavor } : {}),
      };
      response.writeHead(status, headers).end(JSON.stringify(body));
    });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  return {
    host: `127.0.0.1:${port}`,
    tokenUri: `http://127.0.0.1:${port}/token`,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

const user = { type: "authorized_user", client_id: "id", client_secret: "hush", refresh_token: "again" };

test("only Google's registries are asked for Google's credentials", async () => {
  for (const host of ["gcr.io", "eu.gcr.io", "europe-docker.pkg.dev", "pkg.dev:443"])
    assert.ok(isGoogleRegistry(host));
  for (const host of ["ghcr.io", "gcr.io.example.com", "notgcr.io", "127.0.0.1:5000"])
    assert.ok(!isGoogleRegistry(host), host);
  const source = googleCredentials({ file: "/nonexistent/key.json", metadataHost: "" });
  assert.deepEqual(await source.find("ghcr.io", { signal }), { kind: "anonymous" });
});

test("an authorized user's token is fetched once, and again when it ends", async () => {
  await using google = await startGoogle(() => ({
    body: { access_token: `token-${google.asked.length}`, expires_in: 3600 },
  }));
  await using directory = await temporaryDirectory();
  const file = join(directory.path, "adc.json");
  await writeFile(file, JSON.stringify({ ...user, token_uri: google.tokenUri }));
  let now = 1_000_000;
  const source = googleCredentials({ file, now: () => now });
  const find = () => source.find(registry, { signal });
  const both = await Promise.all([find(), find()]);
  const first = { kind: "basic", username: "_token", password: "token-1" };
  assert.deepEqual(both, [first, first]);
  assert.deepEqual(Object.fromEntries(google.asked[0]?.form ?? []), {
    grant_type: "refresh_token",
    client_id: "id",
    client_secret: "hush",
    refresh_token: "again",
  });
  now += 3_500_000;
  assert.deepEqual(await find(), first);
  assert.equal(google.asked.length, 1, "kept");
  now += 60_000;
  assert.deepEqual(await find(), { ...first, password: "token-2" });
});

test("a service account signs its request", async () => {
  await using google = await startGoogle(() => ({ body: { access_token: "t", expires_in: 3600 } }));
  await using directory = await temporaryDirectory();
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const pem = privateKey.export({ type: "pkcs8", format: "pem" });
  const account = {
    type: "service_account",
    client_email: "a@b.iam",
    private_key: pem,
    private_key_id: "k1",
  };
  const usualFile = join(directory.path, "adc.json");
  await writeFile(usualFile, JSON.stringify({ ...account, token_uri: google.tokenUri }));
  const source = googleCredentials({ usualFile, now: () => 1_700_000_000_000 });
  assert.deepEqual(await source.find("gcr.io", { signal }), {
    kind: "basic",
    username: "_token",
    password: "t",
  });
  const form = google.asked[0]?.form;
  assert.equal(form?.get("grant_type"), "urn:ietf:params:oauth:grant-type:jwt-bearer");
  const [header = "", claims = "", signature = ""] = form.get("assertion")?.split(".") ?? [];
  const read = (part: string) => JSON.parse(Buffer.from(part, "base64url").toString("utf8")) as object;
  assert.deepEqual(read(header), { alg: "RS256", typ: "JWT", kid: "k1" });
  assert.deepEqual(read(claims), {
    iss: "a@b.iam",
    scope: "https://www.googleapis.com/auth/cloud-platform",
    aud: google.tokenUri,
    iat: 1_700_000_000,
    exp: 1_700_003_600,
  });
  const key = createPublicKey(publicKey.export({ type: "spki", format: "pem" }));
  const signed = Buffer.from(`${header}.${claims}`);
  assert.ok(verify("RSA-SHA256", signed, key, Buffer.from(signature, "base64url")));
});

test("a machine of Google's speaks for itself; another one has nothing, and docker's file is asked", async () => {
  await using directory = await temporaryDirectory();
  const usualFile = join(directory.path, "none.json");
  let flavor = "Google";
  await using google = await startGoogle(() => ({ body: { access_token: "vm", expires_in: 600 }, flavor }));
  const onGoogle = googleCredentials({ usualFile, metadataHost: google.host });
  assert.deepEqual(await onGoogle.find(registry, { signal }), {
    kind: "basic",
    username: "_token",
    password: "vm",
  });
  assert.equal(google.asked[0]?.headers["metadata-flavor"], "Google");
  assert.match(
    google.asked[0].path,
    /^\/computeMetadata\/v1\/instance\/service-accounts\/default\/token\?scopes=/,
  );

  flavor = "another server";
  const configPath = join(directory.path, "config.json");
  const auth = Buffer.from("me:word").toString("base64");
  await writeFile(configPath, JSON.stringify({ auths: { [registry]: { auth } } }));
  const elsewhere = firstCredential([
    googleCredentials({ usualFile, metadataHost: google.host }),
    dockerCredentials({ configPath }),
  ]);
  assert.deepEqual(await elsewhere.find(registry, { signal }), {
    kind: "basic",
    username: "me",
    password: "word",
  });
});

test("what does not work is an error that names the file and no secret", async () => {
  await using google = await startGoogle(() => ({ status: 400, body: { error: "invalid_grant" } }));
  await using directory = await temporaryDirectory();
  const file = join(directory.path, "adc.json");
  const cases: readonly (readonly [
    content: object | string,
    code: "invalid" | "unauthorized",
    text: RegExp,
  ])[] = [
    ["{", "invalid", /adc\.json is no Google credential/],
    [{ type: "external_account" }, "invalid", /service_account or authorized_user/],
    [{ ...user, refresh_token: "" }, "invalid", /see refresh_token/],
    [{ ...user, token_uri: "http://example.com/token" }, "invalid", /must be an https address/],
    [{ type: "service_account", client_email: "a", private_key: "hush" }, "invalid", /no RSA key/],
    [{ ...user, token_uri: google.tokenUri }, "unauthorized", /answered 400 \(invalid_grant\)/],
  ];
  for (const [content, code, text] of cases) {
    await writeFile(file, typeof content === "string" ? content : JSON.stringify(content));
    await assert.rejects(googleCredentials({ file }).find(registry, { signal }), (error) => {
      assert.ok(isFault(error, code), String(error));
      assert.match(error.message, text);
      assert.doesNotMatch(error.message, /hush|again/);
      return true;
    });
  }
  const missing = googleCredentials({ file: join(directory.path, "gone.json") });
  await assert.rejects(missing.find(registry, { signal }), /GOOGLE_APPLICATION_CREDENTIALS: no file/);
});
