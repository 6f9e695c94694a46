/** The certificate containers of the shipped registry: one Secret, files that a TLS server and its clients agree on. */
import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { runCommand, sharedControlPlane, temporaryDirectory } from "@cocoon/testkit";

const cocoonctl = join(import.meta.dirname, "../../../packages/cli/bin/cocoonctl.mjs");

test("the registry's certificate is made once, kept in its Secret, and trusted by its authority", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  await using directory = await temporaryDirectory();
  const write = async (out: string) => {
    const args = [cocoonctl, "registry-certificate", "--once", `--out=${out}`, "-n", namespace.name];
    const ran = await runCommand(process.execPath, [...args, "--kubeconfig", cluster.kubeconfigPath]);
    assert.equal(ran.code, 0, ran.stderr);
    return new X509Certificate(await readFile(join(out, "tls.crt")));
  };
  const [first, second] = [join(directory.path, "a"), join(directory.path, "b")];
  const certificate = await write(first);
  assert.equal(
    (await write(second)).fingerprint256,
    certificate.fingerprint256,
    "a restarted pod serves the same",
  );
  assert.equal((await stat(join(first, "tls.key"))).mode & 0o777, 0o600);
  const secret = await cluster.kubectl(["-n", namespace.name, "get", "secret", "epoch-tls", "-o", "json"]);
  const { data } = JSON.parse(secret.stdout) as { data: Record<string, string> };
  const authority = new X509Certificate(Buffer.from(data["ca.crt"] ?? "", "base64"));
  assert.ok(certificate.verify(authority.publicKey));
  assert.equal(certificate.checkHost(`epoch.${namespace.name}.svc`), `epoch.${namespace.name}.svc`);
});
