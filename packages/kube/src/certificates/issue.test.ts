import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { generateKeyPairSync, X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { createAuthority, issueServingPair } from "./issue.ts";
import { isFor, isIssuedBy } from "./pem.ts";
import { readPair } from "./serving-certificates.ts";

const validity = { nowMs: Date.now(), forMs: 86_400_000, backdateMs: 3_600_000 };
const names = { commonName: "hook.lab.svc", hosts: ["hook.lab.svc", "hook.lab.svc", "10.0.0.9", "::1"] };

test("an issued pair belongs together, is signed by its authority alone, and OpenSSL accepts the chain", async () => {
  const authority = await createAuthority("test", validity);
  const other = await createAuthority("test", validity);
  const made = await issueServingPair(authority, names, validity);
  readPair(made.certificate, made.privateKey);
  assert.ok(isIssuedBy(made.certificate, authority.certificate));
  assert.ok(!isIssuedBy(made.certificate, other.certificate));
  for (const host of names.hosts) assert.ok(isFor(made.certificate, host), host);
  assert.ok(!isFor(made.certificate, "hook.lab"));
  await using directory = await temporaryDirectory();
  const [ca, leaf] = [join(directory.path, "ca.crt"), join(directory.path, "tls.crt")];
  await writeFile(ca, other.certificate + authority.certificate);
  await writeFile(leaf, made.certificate);
  const verify = ["verify", "-x509_strict", "-purpose", "sslserver", "-verify_hostname", "hook.lab.svc"];
  assert.match(execFileSync("openssl", [...verify, "-CAfile", ca, leaf]).toString(), /OK/);
});

test("dates are those asked for", async () => {
  const authority = await createAuthority("test", validity);
  const leaf = new X509Certificate(authority.certificate);
  const second = (ms: number) => Math.floor(ms / 1000);
  assert.equal(second(Date.parse(leaf.validFrom)), second(validity.nowMs - validity.backdateMs));
  assert.equal(second(Date.parse(leaf.validTo)), second(validity.nowMs + validity.forMs));
});

test("an authority with an RSA key, or an old PEM form, made by another program can sign", async () => {
  await using directory = await temporaryDirectory();
  const key = join(directory.path, "ca.key");
  const certificate = join(directory.path, "ca.crt");
  const forms = [
    generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs1", format: "pem" }),
    generateKeyPairSync("ec", { namedCurve: "P-384" }).privateKey.export({ type: "sec1", format: "pem" }),
  ];
  for (const privateKey of forms) {
    await writeFile(key, privateKey);
    execFileSync("openssl", [
      "req",
      "-x509",
      "-key",
      key,
      "-subj",
      "/CN=other",
      "-days",
      "3",
      "-out",
      certificate,
    ]);
    const pem = execFileSync("cat", [certificate]).toString();
    const made = await issueServingPair({ certificate: pem, privateKey }, names, validity);
    assert.ok(isIssuedBy(made.certificate, pem));
  }
  const odd = generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" });
  const authority = await createAuthority("test", validity);
  await assert.rejects(issueServingPair({ ...authority, privateKey: odd }, names, validity), {
    code: "invalid",
    message: /RSA, or ECDSA/,
  });
});
