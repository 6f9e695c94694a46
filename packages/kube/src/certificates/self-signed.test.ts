import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { silentLogger } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import { createSelfSignedPair } from "./issue.ts";
import { fileOrSelfSignedCertificates, selfSignedCertificates } from "./self-signed.ts";
import { handshake, serveTls } from "./testing/handshake.ts";

test("a self-signed certificate is P-256, for ten years, for the host, its address and the loopback names", async () => {
  await using certificates = await selfSignedCertificates({ host: "node-7", ip: "10.1.2.3" });
  const leaf = new X509Certificate(certificates.current().certificate);
  assert.equal(leaf.publicKey.asymmetricKeyDetails?.namedCurve, "prime256v1");
  for (const name of ["node-7", "localhost"]) assert.equal(leaf.checkHost(name), name);
  for (const ip of ["10.1.2.3", "127.0.0.1"]) assert.equal(leaf.checkIP(ip), ip);
  assert.equal(leaf.checkHost("node-8"), undefined);
  assert.ok(leaf.verify(leaf.publicKey));
  assert.equal(Math.round(certificates.daysToExpiry()), 3650);
  assert.equal(certificates.readiness(), undefined);
  await using server = await serveTls(certificates);
  const seen = await handshake(server.port, { ca: certificates.current().certificate, servername: "node-7" });
  assert.deepEqual(seen, { fingerprint: leaf.fingerprint256, error: undefined });
});

test("files are taken when they can be, a certificate is made when there are none, and broken files are an error", async () => {
  await using directory = await temporaryDirectory();
  const certificateFile = join(directory.path, "tls.crt");
  const keyFile = join(directory.path, "tls.key");
  const open = (files: { certificateFile?: string; keyFile?: string } = { certificateFile, keyFile }) =>
    fileOrSelfSignedCertificates({ host: "node-7", log: silentLogger, ...files });
  const readCommonName = async (files?: { certificateFile?: string; keyFile?: string }) => {
    await using certificates = await open(files);
    return new X509Certificate(certificates.current().certificate).subject;
  };
  const put = async (forMs: number) => {
    const validity = { nowMs: Date.now(), forMs, backdateMs: 7_200_000 };
    const pair = await createSelfSignedPair({ commonName: "on-disk", hosts: ["a"] }, validity);
    await writeFile(certificateFile, pair.certificate);
    await writeFile(keyFile, pair.privateKey);
  };
  assert.equal(await readCommonName({}), "CN=node-7");
  assert.equal(await readCommonName({ certificateFile: "", keyFile: "" }), "CN=node-7");
  assert.equal(await readCommonName(), "CN=node-7");
  await put(86_400_000);
  assert.equal(await readCommonName(), "CN=on-disk");
  await put(-3_600_000);
  assert.equal(await readCommonName(), "CN=node-7", "the one on disk has expired");
  await writeFile(keyFile, "broken");
  await assert.rejects(open(), { code: "invalid" });
});
