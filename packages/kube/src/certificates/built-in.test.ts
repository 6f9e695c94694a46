import assert from "node:assert/strict";
import { test } from "node:test";
import { Fault, Registry, silentLogger, systemClock } from "@cocoon/core";
import { eventually } from "@cocoon/testkit";
import { startBuiltInCertificates, type BuiltInOptions } from "./built-in.ts";
import { exportCertificateMetrics } from "./serving-certificates.ts";
import { handshake, serveTls } from "./testing/handshake.ts";
import { FakeStore, FakeTarget, type Gate } from "./testing/fake-stores.ts";

const signal = new AbortController().signal;

function options(store: FakeStore, target: FakeTarget, gate?: Gate): BuiltInOptions {
  return {
    store: store.view(gate),
    targets: [target.view(gate)],
    names: { commonName: "hook", hosts: ["localhost", "127.0.0.1"] },
    replica: "a",
    log: silentLogger,
    policy: { settleMs: 0, propagationMs: 0 },
    clock: systemClock,
    syncMs: 20,
    busySyncMs: 20,
  };
}

test("a server follows the built-in certificates, is ready once injected, and new pairs are served as they come", async () => {
  const [store, target] = [new FakeStore(), new FakeTarget()];
  await using certificates = await startBuiltInCertificates(options(store, target), { signal });
  await using server = await serveTls(certificates);
  assert.equal(certificates.readiness(), undefined);
  const registry = new Registry();
  exportCertificateMetrics(registry, certificates);
  assert.match(
    await registry.metrics(),
    /serving_certificate_days_to_expiry 36[45]\.\d+\n[\s\S]*serving_certificate_ready 1/,
  );
  const first = await handshake(server.port, { ca: target.bundle });
  assert.equal(first.error, undefined);
  // A damaged pair leads to a new one.
  const { content } = store;
  assert.ok(content);
  store.content = { ...content, version: "x", data: { ...content.data, "tls.crt": "", "tls.key": "" } };
  await eventually(async () => {
    const next = await handshake(server.port, { ca: target.bundle });
    assert.notEqual(next.fingerprint, first.fingerprint);
    assert.equal(next.error, undefined);
  });
});

test("starting goes on trying while the store does not answer, and gives up where trying cannot help", async () => {
  const [store, target] = [new FakeStore(), new FakeTarget()];
  let failures = 2;
  const flaky: Gate = async (what) => {
    if (what === "read store" && failures-- > 0) throw new Fault("unavailable", "no answer");
  };
  await using _certificates = await startBuiltInCertificates(options(store, target, flaky), { signal });
  assert.ok(failures < 0);
  const forbidden: Gate = () => Promise.reject(new Fault("forbidden", "secrets is forbidden"));
  await assert.rejects(startBuiltInCertificates(options(store, target, forbidden), { signal }), {
    code: "forbidden",
  });
  const stopping = AbortSignal.timeout(50);
  const down: Gate = () => Promise.reject(new Fault("unavailable", "no answer"));
  await assert.rejects(startBuiltInCertificates(options(store, target, down), { signal: stopping }));
});

test("stopping takes the replica off the list and ends the looking", async () => {
  const [store, target] = [new FakeStore(), new FakeTarget()];
  const certificates = await startBuiltInCertificates(options(store, target), { signal });
  assert.match(store.content?.note ?? "", /"a":/);
  await certificates[Symbol.asyncDispose]();
  await certificates[Symbol.asyncDispose]();
  assert.doesNotMatch(store.content?.note ?? "", /"a":/);
});
