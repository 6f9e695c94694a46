/** The executable: flags and variables, first start, TLS with reload, health, a clean stop. */
import assert from "node:assert/strict";
import { readFile, stat, writeFile } from "node:fs/promises";
import { Agent, request } from "node:https";
import { join } from "node:path";
import { describe, it } from "node:test";
import type { TLSSocket } from "node:tls";
import { eventually, runCommand, temporaryDirectory } from "@cocoon/testkit";
import { startChildRegistry } from "./child.ts";
import { Client, startWorld } from "./world.ts";

const main = join(import.meta.dirname, "../../../packages/registry/src/main.ts");
const epoch = (args: readonly string[], env: Record<string, string> = {}) =>
  runCommand(process.execPath, [main, ...args], { env });

async function selfSigned(directory: string, name: string): Promise<{ certFile: string; keyFile: string }> {
  const [certFile, keyFile] = [join(directory, "tls.crt"), join(directory, "tls.key")];
  const options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split(" ");
  const subject = ["-subj", `/CN=${name}`, "-addext", "subjectAltName=IP:127.0.0.1"];
  const result = await runCommand("openssl", [...options, ...subject, "-keyout", keyFile, "-out", certFile]);
  assert.equal(result.code, 0, result.stderr);
  return { certFile, keyFile };
}

/** The common name of the certificate the server shows on a new connection. */
function shownCertificate(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const agent = new Agent({ rejectUnauthorized: false, keepAlive: false });
    const sent = request(`${url}/healthz`, { agent }, (response) => {
      const name = (response.socket as TLSSocket).getPeerCertificate().subject.CN;
      response.resume().on("end", () => resolve(String(name)));
    });
    sent.on("error", reject).end();
  });
}

describe("epoch serve", () => {
  it("starts closed, leaves one key, serves, stops on SIGTERM and knows everything at the next start", async () => {
    await using directory = await temporaryDirectory();
    const options = { root: join(directory.path, "data"), logFile: join(directory.path, "log") };
    let image;
    {
      await using first = await startChildRegistry(options);
      assert.equal((await new Client(first.url).get("/v2/")).status, 401);
      image = await first.client.pushImage("team/app", "v1");
      assert.equal((await stat(join(options.root, "admin-token"))).mode & 0o777, 0o600);
      await first.program.stop();
      assert.deepEqual(await first.program.exited, { code: 0, signal: null });
    }
    const token = await readFile(join(options.root, "admin-token"), "utf8");
    await using second = await startChildRegistry(options);
    assert.equal(await readFile(join(options.root, "admin-token"), "utf8"), token);
    assert.deepEqual((await second.client.get("/v2/team/app/manifests/v1")).body, image.bytes);
    assert.doesNotMatch(
      await readFile(options.logFile, "utf8"),
      new RegExp(token.trim()),
      "no secret in the log",
    );
  });

  it("refuses a second server on the same directory", async () => {
    await using directory = await temporaryDirectory();
    const root = join(directory.path, "data");
    await using _first = await startChildRegistry({ root, logFile: join(directory.path, "log") });
    const second = await epoch(["serve", "--addr", "127.0.0.1:0", "--health-addr", "", "--root", root]);
    assert.equal(second.code, 1);
    assert.match(second.stderr, /is in use by process \d+/);
  });

  it("takes epoch's variables", async () => {
    await using directory = await temporaryDirectory();
    const root = join(directory.path, "data");
    await using child = await startChildRegistry({
      root,
      logFile: join(directory.path, "log"),
      args: ["--dsn", "epoch:epoch@tcp(127.0.0.1:3306)/epoch?parseTime=true", "--anonymous-pull"],
      env: {
        EPOCH_REGISTRY_TOKEN: "from-the-environment",
        EPOCH_PUBLIC_URL: "https://public.example",
        EPOCH_UPLOAD_DIR: join(root, "uploads"),
      },
    });
    await new Client(child.url, "from-the-environment").pushImage("team/app", "v1");
    const answer = await new Client(child.url).get("/v2/");
    assert.match(answer.headers.get("www-authenticate") ?? "", /realm="https:\/\/public\.example/);
    assert.equal((await new Client(child.url).get("/v2/team/app/manifests/v1")).status, 200);
    assert.match(await readFile(child.logFile, "utf8"), /--dsn is not used/);
  });

  const mistakes: readonly [readonly string[], Record<string, string>, RegExp][] = [
    [["--addr", ":8080"], {}, /--tls-cert-file.*--plain-http/],
    [["--addr", "nonsense"], {}, /--addr: "nonsense" is not of the form/],
    [["--tls-cert-file", "x"], {}, /belong together/],
    [["--storage", "s3"], {}, /EPOCH_S3_ENDPOINT/],
    [["--storage", "tape"], {}, /must be one of auto, filesystem, s3/],
    [["--max-blob-size", "much"], {}, /must be a size/],
    [["--quota", "*"], {}, /--quota: "\*"/],
    [["--retention", "*:*"], {}, /retention rule/],
    [["--upload-idle", "1s"], {}, /at least 1m/],
    [["--max-manifest-size", "60Mi"], {}, /at most 50Mi/],
    [["--nonsense"], {}, /nonsense/],
    [
      [],
      { SSO_CLIENT_ID: "x" },
      /login by oidc also needs SSO_CLIENT_SECRET, SSO_REDIRECT_URI, SSO_AUTHORIZE_URL/,
    ],
    [
      [],
      { GOOGLE_OAUTH_CLIENT_ID: "x" },
      /login by google also needs GOOGLE_OAUTH_CLIENT_SECRET, GOOGLE_OAUTH_REDIRECT_URI$/m,
    ],
    [[], { SSO_PROVIDER: "ldap" }, /use google or oidc/],
    [[], { SSO_COOKIE_SECRET: "short", SSO_PROVIDER: "" }, /SSO_COOKIE_SECRET/],
    [
      [],
      { EPOCH_S3_ENDPOINT: "h", EPOCH_S3_ACCESS_KEY: "a", EPOCH_S3_BUCKET: "b", EPOCH_S3_SECURE: "maybe" },
      /EPOCH_S3_SECURE/,
    ],
    [[], { EPOCH_LOG_LEVEL: "loud" }, /log level "loud"/],
  ];
  for (const [args, env, message] of mistakes)
    it(`says what is wrong with ${[...args, ...Object.keys(env)].join(" ")}`, async () => {
      const base = args.includes("--addr") ? [] : ["--addr", "127.0.0.1:0"];
      const result = await epoch(["serve", ...base, ...args], env);
      assert.equal(result.code, 2, result.stderr);
      assert.match(result.stderr, message);
    });

  it("prints its configuration without secrets", async () => {
    const result = await epoch(["serve", "--print-config"], {
      EPOCH_REGISTRY_TOKEN: "very-secret",
      EPOCH_S3_SECRET_KEY: "also-secret",
    });
    assert.equal(result.code, 0);
    assert.doesNotMatch(result.stdout, /very-secret|also-secret/);
    assert.equal((JSON.parse(result.stdout) as { addr: string }).addr, ":8080");
  });

  it("gives health and metrics on a port of its own", async () => {
    await using directory = await temporaryDirectory();
    await using child = await startChildRegistry({
      root: join(directory.path, "data"),
      logFile: join(directory.path, "log"),
      args: ["--health-addr", "127.0.0.1:0"],
    });
    const url = /"url":"([^"]+)".*"health and metrics serve"/.exec(
      await readFile(child.logFile, "utf8"),
    )?.[1];
    const health = new Client(url ?? "");
    await child.client.pushImage("team/app", "v1");
    assert.match((await health.get("/readyz")).body.toString(), /\[\+\] storage/);
    const metrics = (await health.get("/metrics")).body.toString();
    assert.match(metrics, /epoch_http_requests_total\{route="manifest",method="PUT",code="201"\} 1/);
    assert.match(metrics, /epoch_blob_bytes_total\{direction="in"\} \d+/);
    assert.match(metrics, /cocoon_build_info\{program="epoch"/);
  });
});

describe("TLS", () => {
  it("serves, and shows a new certificate without a restart", async () => {
    await using directory = await temporaryDirectory();
    const files = await selfSigned(directory.path, "first");
    await using world = await startWorld({ tls: { ...files, everyMs: 20 } });
    assert.match(world.registry.url, /^https:/);
    assert.equal(await shownCertificate(world.registry.url), "first");
    await writeFile(files.certFile, "not a certificate");
    await selfSigned(directory.path, "second");
    await eventually(async () => assert.equal(await shownCertificate(world.registry.url), "second"));
  });

  it("keeps the old certificate while the new one cannot be used", async () => {
    await using directory = await temporaryDirectory();
    const files = await selfSigned(directory.path, "good");
    await using world = await startWorld({ tls: { ...files, everyMs: 10 } });
    await writeFile(files.certFile, "not a certificate");
    await new Promise((resolve) => setTimeout(resolve, 100));
    assert.equal(await shownCertificate(world.registry.url), "good");
    await assert.rejects(startWorld({ tls: files }), /TLS files/);
  });
});
