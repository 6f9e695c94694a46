import "reflect-metadata"; // @peculiar/x509 resolves its algorithms with it
import assert from "node:assert/strict";
import { createPrivateKey, generateKeyPairSync, webcrypto, X509Certificate } from "node:crypto";
import { test } from "node:test";
import * as x509 from "@peculiar/x509";
import { createAuthority, issueServingPair, type IssuedPair } from "./issue.ts";
import { isFor, isIssuedBy } from "./pem.ts";
import { PairHolder, readPair } from "./serving-certificates.ts";
import { handshake, serveTls } from "./testing/handshake.ts";

const validity = { nowMs: Date.now(), forMs: 86_400_000, backdateMs: 3_600_000 };
const names = { commonName: "hook.lab.svc", hosts: ["hook.lab.svc", "hook.lab.svc", "10.0.0.9", "::1"] };

function serving(pair: IssuedPair) {
  const holder = new PairHolder(readPair(pair.certificate, pair.privateKey));
  return serveTls({
    current: () => holder.pair,
    onChange: (listener) => holder.onChange(listener),
    readiness: () => undefined,
    daysToExpiry: () => 1,
    [Symbol.asyncDispose]: async () => undefined,
  });
}

test("an issued pair belongs together, is signed by its authority alone, and a client accepts it by that", async () => {
  const authority = await createAuthority("test", validity);
  const other = await createAuthority("test", validity);
  const made = await issueServingPair(authority, names, validity);
  assert.ok(isIssuedBy(made.certificate, authority.certificate));
  assert.ok(!isIssuedBy(made.certificate, other.certificate));
  for (const host of names.hosts) assert.ok(isFor(made.certificate, host), host);
  assert.ok(!isFor(made.certificate, "hook.lab"));
  await using server = await serving(made);
  const servername = "hook.lab.svc";
  const both = other.certificate + authority.certificate;
  assert.equal((await handshake(server.port, { servername, ca: both })).error, undefined);
  assert.match(
    (await handshake(server.port, { servername, ca: other.certificate })).error ?? "",
    /UNABLE_TO_VERIFY|UNABLE_TO_GET_ISSUER/,
  );
  assert.match(
    String((await handshake(server.port, { servername: "hook", ca: both })).error),
    /ERR_TLS_CERT_ALTNAME_INVALID|altnames/,
  );
});

test("dates are those requested", async () => {
  const authority = await createAuthority("test", validity);
  const leaf = new X509Certificate(authority.certificate);
  const second = (ms: number) => Math.floor(ms / 1000);
  assert.equal(second(Date.parse(leaf.validFrom)), second(validity.nowMs - validity.backdateMs));
  assert.equal(second(Date.parse(leaf.validTo)), second(validity.nowMs + validity.forMs));
});

type ForeignAlgorithm = webcrypto.RsaHashedKeyGenParams & webcrypto.EcKeyGenParams & webcrypto.EcdsaParams;
const foreign: readonly { readonly algorithm: Partial<ForeignAlgorithm>; readonly form: "pkcs1" | "sec1" }[] =
  [
    {
      algorithm: {
        name: "RSASSA-PKCS1-v1_5",
        modulusLength: 2048,
        publicExponent: new Uint8Array([1, 0, 1]),
        hash: "SHA-256",
      },
      form: "pkcs1",
    },
    { algorithm: { name: "ECDSA", namedCurve: "P-384", hash: "SHA-384" }, form: "sec1" },
  ];

for (const { algorithm, form } of foreign)
  test(`an authority that another program made can sign: ${algorithm.name} key in ${form} form`, async () => {
    const given = algorithm as ForeignAlgorithm;
    const keys = await webcrypto.subtle.generateKey(given, true, ["sign", "verify"]);
    const certificate = await x509.X509CertificateGenerator.createSelfSigned({
      name: "CN=other",
      keys,
      signingAlgorithm: given,
      notBefore: new Date(validity.nowMs - 60_000),
      notAfter: new Date(validity.nowMs + validity.forMs),
      extensions: [new x509.BasicConstraintsExtension(true, 1, true)],
    });
    const pkcs8 = Buffer.from(await webcrypto.subtle.exportKey("pkcs8", keys.privateKey));
    const key = createPrivateKey({ key: pkcs8, format: "der", type: "pkcs8" });
    const privateKey = key.export({ type: form, format: "pem" });
    const authority = { certificate: certificate.toString("pem"), privateKey };
    const made = await issueServingPair(authority, names, validity);
    assert.ok(isIssuedBy(made.certificate, authority.certificate));
  });

test("an authority with a key of another kind is refused", async () => {
  const odd = generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" });
  const authority = await createAuthority("test", validity);
  await assert.rejects(issueServingPair({ ...authority, privateKey: odd }, names, validity), {
    code: "invalid",
    message: /RSA, or ECDSA/,
  });
});
