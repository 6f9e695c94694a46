/** Our client against real servers: the same suite that the registry in memory passes. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "node:test";
import { isFault } from "@cocoon/core";
import { fixedCredential, openRegistry } from "@cocoon/oci";
import { registrySuite, type SuiteRegistry } from "@cocoon/oci/testing";
import { startRegistry, type RegistryOptions } from "@cocoon/registry";
import { runCommand, temporaryDirectory } from "@cocoon/testkit";

async function ours(options: Partial<RegistryOptions> & { ca?: string } = {}): Promise<SuiteRegistry> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const { ca, ...server } = options;
  const running = stack.use(await startRegistry({ storage: { kind: "filesystem", root: path }, ...server }));
  const scopes = ["repository:suite/**:pull,push,delete"];
  const password = await running.createToken({ name: "suite", scopes });
  const owned = stack.move();
  return {
    address: running.url,
    credentials: fixedCredential({ kind: "basic", username: "suite", password }),
    ...(ca === undefined ? {} : { ca }),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

registrySuite("epoch on a file system", () => ours());

/** A certificate that is its own authority. */
async function certificate(directory: string): Promise<{ certFile: string; keyFile: string }> {
  const [certFile, keyFile] = [join(directory, "cert.pem"), join(directory, "key.pem")];
  const options = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2".split(" ");
  const subject = ["-subj", "/CN=registry", "-addext", "subjectAltName=IP:127.0.0.1"];
  const result = await runCommand("openssl", [...options, ...subject, "-keyout", keyFile, "-out", certFile]);
  assert.equal(result.code, 0, result.stderr);
  return { certFile, keyFile };
}

async function withTls(): Promise<SuiteRegistry> {
  await using directory = await temporaryDirectory();
  const tls = await certificate(directory.path);
  return await ours({ tls, ca: await readFile(tls.certFile, "utf8") });
}

registrySuite("epoch with TLS and an authority of its own", withTls);

it("a certificate of an unknown authority is refused, and nothing is sent", async ({ signal }) => {
  await using server = await withTls();
  const credentials = fixedCredential({ kind: "basic", username: "u", password: "p" });
  await using registry = openRegistry({ address: server.address, credentials, retry: { attempts: 1 } });
  await assert.rejects(
    registry.repository("suite/a").headManifest("x", { signal }),
    (error) => isFault(error, "unavailable") && /certificate/.test(error.message),
  );
});
