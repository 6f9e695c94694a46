import assert from "node:assert/strict";
import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { silentLogger } from "@cocoon/core";
import { count, eventually, temporaryDirectory } from "@cocoon/testkit";
import { FakeClock } from "@cocoon/core/testing";
import { startFileCertificates } from "./files.ts";
import { createSelfSignedPair, type IssuedPair } from "./issue.ts";
import { readPair } from "./serving-certificates.ts";
import { handshake, serveTls } from "./testing/handshake.ts";

const dayMs = 86_400_000;

function newPair(forMs = 30 * dayMs): Promise<IssuedPair> {
  const validity = { nowMs: Date.now(), forMs, backdateMs: 60_000 };
  return createSelfSignedPair({ commonName: "localhost", hosts: ["localhost"] }, validity);
}

const readFingerprint = (pair: IssuedPair) => readPair(pair.certificate, pair.privateKey).fingerprint;

/** As the kubelet updates a mounted Secret: a new directory, then one rename of a link. */
async function swap(directory: string, generation: number, pair: IssuedPair): Promise<void> {
  const data = `..generation-${generation}`;
  await mkdir(join(directory, data));
  await writeFile(join(directory, data, "tls.crt"), pair.certificate);
  await writeFile(join(directory, data, "tls.key"), pair.privateKey);
  await symlink(data, join(directory, "..data_tmp"));
  await rename(join(directory, "..data_tmp"), join(directory, "..data"));
  if (generation === 0)
    for (const file of ["tls.crt", "tls.key"]) await symlink(join("..data", file), join(directory, file));
  else await rm(join(directory, `..generation-${generation - 1}`), { recursive: true });
}

function start(directory: string, options: { pollMs?: number; clock?: FakeClock } = {}) {
  return startFileCertificates({
    certificateFile: join(directory, "tls.crt"),
    keyFile: join(directory, "tls.key"),
    log: silentLogger,
    ...options,
  });
}

test("a mounted Secret that is swapped is served to new connections, without a restart and without a poll", async () => {
  await using directory = await temporaryDirectory();
  const first = await newPair();
  await swap(directory.path, 0, first);
  await using certificates = await start(directory.path, { pollMs: 3_600_000 });
  await using server = await serveTls(certificates);
  assert.equal((await handshake(server.port)).fingerprint, readFingerprint(first));
  for (let generation = 1; generation <= 3; generation += 1) {
    const next = await newPair();
    await swap(directory.path, generation, next);
    await eventually(async () =>
      assert.equal((await handshake(server.port)).fingerprint, readFingerprint(next)),
    );
  }
});

test("files that are written one after the other never give a pair that does not fit", async () => {
  await using directory = await temporaryDirectory();
  const write = (name: string, text: string) => writeFile(join(directory.path, name), text);
  let pair = await newPair();
  await write("tls.crt", pair.certificate);
  await write("tls.key", pair.privateKey);
  await using certificates = await start(directory.path, { pollMs: 20 });
  const seen: string[] = [];
  using _listening = certificates.onChange(({ certificate, privateKey, fingerprint }) => {
    readPair(certificate, privateKey); // throws when they do not fit
    seen.push(fingerprint);
  });
  for (let round = 0; round < count({ small: 5, full: 50 }); round += 1) {
    const before = readFingerprint(pair);
    pair = await newPair();
    await write("tls.crt", pair.certificate);
    await new Promise((resolve) => setTimeout(resolve, 60)); // several looks at what does not fit
    assert.equal(certificates.current().fingerprint, before);
    await write("tls.key", pair.privateKey);
    await eventually(() => assert.equal(certificates.current().fingerprint, readFingerprint(pair)));
  }
  assert.equal(seen.at(-1), readFingerprint(pair));
});

test("files that go bad or away leave the last good pair in use", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "tls.crt");
  const first = await newPair();
  await writeFile(path, first.certificate);
  await writeFile(join(directory.path, "tls.key"), first.privateKey);
  await using certificates = await start(directory.path, { pollMs: 10 });
  await writeFile(path, "not a certificate");
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(certificates.current().fingerprint, readFingerprint(first));
  await rm(path);
  await new Promise((resolve) => setTimeout(resolve, 100));
  assert.equal(certificates.current().fingerprint, readFingerprint(first));
  assert.equal(certificates.readiness(), undefined);
  const next = await newPair();
  await writeFile(path, next.certificate);
  await writeFile(join(directory.path, "tls.key"), next.privateKey);
  await eventually(() => assert.equal(certificates.current().fingerprint, readFingerprint(next)));
});

test("an expired certificate is not ready, and the days are counted", async () => {
  await using directory = await temporaryDirectory();
  const pair = await newPair(10 * dayMs);
  await writeFile(join(directory.path, "tls.crt"), pair.certificate);
  await writeFile(join(directory.path, "tls.key"), pair.privateKey);
  const clock = new FakeClock(Date.now());
  await using certificates = await start(directory.path, { clock });
  assert.equal(certificates.readiness(), undefined);
  assert.equal(Math.round(certificates.daysToExpiry()), 10);
  clock.advance(11 * dayMs);
  assert.match(certificates.readiness() ?? "", /expired on/);
  assert.equal(Math.round(certificates.daysToExpiry()), -1);
});

test("starting fails with a reason when there is no usable pair, and does not quote the key", async () => {
  await using directory = await temporaryDirectory();
  await assert.rejects(start(directory.path), { code: "invalid", message: /cannot read .*tls\.(crt|key)/ });
  const [one, other] = [await newPair(), await newPair()];
  const cases: readonly [string, string, RegExp][] = [
    [one.certificate, other.privateKey, /do not belong together/],
    ["", one.privateKey, /not a PEM certificate/],
    [one.certificate, "TOPSECRET", /not an unencrypted PEM private key/],
  ];
  for (const [certificate, key, message] of cases) {
    await writeFile(join(directory.path, "tls.crt"), certificate);
    await writeFile(join(directory.path, "tls.key"), key);
    await assert.rejects(start(directory.path), (error: Error) => {
      assert.match(error.message, message);
      assert.doesNotMatch(error.message, /TOPSECRET|PRIVATE KEY-----/);
      return true;
    });
  }
});
