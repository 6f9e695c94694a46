import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLogger } from "@cocoon/core";
import { FakeClock } from "@cocoon/core/testing";
import { isIssuedBy, splitBundle } from "./pem.ts";
import { Rotation } from "./rotation.ts";
import { defaultPolicy, type RotationPolicy } from "./rotation-plan.ts";
import { FakeStore, FakeTarget, type Gate } from "./testing/fake-stores.ts";

const signal = new AbortController().signal;
const dayMs = 86_400_000;
const names = { commonName: "hook.lab.svc", hosts: ["hook.lab.svc", "127.0.0.1"] };

interface World {
  readonly store: FakeStore;
  readonly target: FakeTarget;
  readonly clock: FakeClock;
}

function world(): World {
  return { store: new FakeStore(), target: new FakeTarget(), clock: new FakeClock(Date.now()) };
}

function startReplica(
  { store, target, clock }: World,
  replica: string,
  { gate, policy, hosts }: { gate?: Gate; policy?: Partial<RotationPolicy>; hosts?: string[] } = {},
): Rotation {
  return new Rotation({
    store: store.view(gate),
    targets: [target.view(gate)],
    names: hosts ? { ...names, hosts } : names,
    replica,
    authorityName: "test authority",
    policy: { ...defaultPolicy, settleMs: 0, ...policy },
    clock,
    log: silentLogger,
  });
}

const authoritiesIn = (bundle: string) => splitBundle(bundle);
const trusts = (bundle: string, rotation: Rotation) =>
  authoritiesIn(bundle).some((authority) => isIssuedBy(rotation.holder.pair.certificate, authority));

test("the first look makes an authority and a pair, injects it, and the next one writes nothing", async () => {
  const cluster = world();
  const rotation = startReplica(cluster, "a");
  assert.match(rotation.readiness() ?? "", /not read yet/);
  await rotation.sync({ signal });
  assert.equal(rotation.readiness(), undefined);
  assert.equal(cluster.target.bundle, rotation.bundle);
  assert.equal(authoritiesIn(rotation.bundle).length, 1);
  assert.ok(trusts(cluster.target.bundle, rotation));
  const writes = [cluster.store.writes, cluster.target.writes];
  await rotation.sync({ signal });
  assert.deepEqual([cluster.store.writes, cluster.target.writes], writes);
});

test("replicas that start at the same time share one authority", async () => {
  const cluster = world();
  const replicas = ["a", "b", "c", "d"].map((name) =>
    startReplica(cluster, name, { gate: () => Promise.resolve() }),
  );
  // Those that lose the race wait a moment before they look again; here the moment passes at once.
  cluster.clock.schedule = (_ms, callback) => {
    queueMicrotask(callback);
    return () => undefined;
  };
  await Promise.all(replicas.map((replica) => replica.sync({ signal })));
  assert.equal(new Set(replicas.map((replica) => replica.bundle)).size, 1);
  assert.equal(new Set(replicas.map((replica) => replica.holder.pair.fingerprint)).size, 1);
  assert.equal(authoritiesIn(cluster.target.bundle).length, 1);
  assert.equal(cluster.target.writes, 1);
});

test("a serving certificate is renewed before it expires, with the same authority, and listeners hear of it", async () => {
  const cluster = world();
  const rotation = startReplica(cluster, "a");
  await rotation.sync({ signal });
  const { bundle } = rotation;
  const first = rotation.holder.pair;
  const heard: string[] = [];
  using _listening = rotation.holder.onChange((pair) => heard.push(pair.fingerprint));
  cluster.clock.advance(244 * dayMs);
  await rotation.sync({ signal });
  assert.deepEqual(heard, [], "too early");
  cluster.clock.advance(2 * dayMs);
  await rotation.sync({ signal });
  assert.notEqual(rotation.holder.pair.fingerprint, first.fingerprint);
  assert.deepEqual(heard, [rotation.holder.pair.fingerprint]);
  assert.equal(rotation.bundle, bundle);
  assert.equal(rotation.readiness(), undefined);
});

/** Looks on all replicas, then some time passes. */
async function pass({ clock }: World, replicas: readonly Rotation[], ms: number): Promise<void> {
  for (const replica of replicas) await replica.sync({ signal });
  clock.advance(ms);
}

test("an authority is replaced step by step: trusted first, served then, and only then is the old one dropped", async () => {
  const cluster = world();
  const [a, b] = [startReplica(cluster, "a"), startReplica(cluster, "b")];
  await pass(cluster, [a, b], 8 * 365 * dayMs + dayMs);
  await pass(cluster, [a, b], 0); // the serving pair has long expired by now and is renewed at once
  const old = a.bundle;
  const oldPair = a.holder.pair.fingerprint;
  assert.equal(authoritiesIn(cluster.target.bundle).length, 2, "announced");
  assert.ok(cluster.target.bundle.endsWith(authoritiesIn(old).at(-1) ?? "-"));
  assert.equal(b.holder.pair.fingerprint, oldPair, "still serving the old one");

  cluster.clock.advance(59_000);
  await pass(cluster, [a, b], 2_000);
  assert.equal(a.holder.pair.fingerprint, oldPair, "not before every replica had time to learn of it");

  await a.sync({ signal });
  assert.notEqual(a.holder.pair.fingerprint, oldPair, "switched");
  assert.equal(b.holder.pair.fingerprint, oldPair, "b has not looked yet");
  for (let minutes = 0; minutes < 20; minutes += 10) await pass(cluster, [a], 10 * 60_000);
  assert.equal(authoritiesIn(cluster.target.bundle).length, 2, "b may still serve the old one");
  assert.ok(trusts(cluster.target.bundle, a) && trusts(cluster.target.bundle, b));

  await pass(cluster, [b], 11 * 60_000);
  assert.equal(b.holder.pair.fingerprint, a.holder.pair.fingerprint);
  await a.sync({ signal });
  assert.equal(authoritiesIn(cluster.target.bundle).length, 1, "dropped");
  assert.ok(trusts(cluster.target.bundle, a) && trusts(cluster.target.bundle, b));
  assert.equal(a.readiness(), undefined);
  assert.equal(b.readiness(), undefined);
});

test("a replica that died is not waited for longer than its time", async () => {
  const cluster = world();
  const [a, b] = [startReplica(cluster, "a"), startReplica(cluster, "b")];
  await pass(cluster, [a, b], 8.5 * 365 * dayMs);
  await pass(cluster, [a, b], 61_000);
  let minutes = 0;
  for (; minutes < 120; minutes += 1) {
    await pass(cluster, [a], 60_000);
    if (authoritiesIn(cluster.target.bundle).length === 1) break;
  }
  assert.ok(minutes > 25 && minutes < 35, `${minutes} minutes`);
});

test("a replica that leaves is taken off the list", async () => {
  const cluster = world();
  const [a, b] = [startReplica(cluster, "a"), startReplica(cluster, "b")];
  await pass(cluster, [a, b], 0);
  const listed = () =>
    Object.keys((JSON.parse(cluster.store.content?.note ?? "{}") as { replicas: object }).replicas);
  assert.deepEqual(listed().toSorted(), ["a", "b"]);
  await b.leave({ signal });
  assert.deepEqual(listed(), ["a"]);
});

test("a replica that cannot confirm what it serves stops being ready before the others give it up", async () => {
  const cluster = world();
  let broken = false;
  const gate: Gate = () => (broken ? Promise.reject(new Error("no route")) : Promise.resolve());
  const rotation = startReplica(cluster, "a", { gate });
  await rotation.sync({ signal });
  broken = true;
  cluster.clock.advance(20 * 60_000);
  await assert.rejects(rotation.sync({ signal }), /no route/);
  assert.equal(rotation.readiness(), undefined);
  cluster.clock.advance(8 * 60_000);
  assert.match(rotation.readiness() ?? "", /could not be confirmed/);
  broken = false;
  await rotation.sync({ signal });
  assert.equal(rotation.readiness(), undefined);
});

test("a store that was deleted is made again with a new authority, and what is served stays trusted", async () => {
  const cluster = world();
  const [a, b] = [startReplica(cluster, "a"), startReplica(cluster, "b")];
  await pass(cluster, [a, b], 1_000);
  const before = a.holder.pair.fingerprint;
  cluster.store.content = undefined;
  await pass(cluster, [a, b], 0);
  assert.equal(a.holder.pair.fingerprint, before);
  assert.equal(authoritiesIn(cluster.target.bundle).length, 2);
  for (let minutes = 0; minutes < 35; minutes += 1) await pass(cluster, [a, b], 60_000);
  assert.notEqual(a.holder.pair.fingerprint, before);
  assert.equal(authoritiesIn(cluster.target.bundle).length, 1);
  assert.ok(trusts(cluster.target.bundle, a) && trusts(cluster.target.bundle, b));
});

test("a fresh replica that finds a bundle but no store keeps trusting who is in it", async () => {
  const cluster = world();
  const old = startReplica(cluster, "old");
  await old.sync({ signal });
  cluster.store.content = undefined;
  const fresh = startReplica(cluster, "fresh");
  await fresh.sync({ signal });
  assert.ok(trusts(cluster.target.bundle, fresh) && trusts(cluster.target.bundle, old));
});

test("a store that was damaged is made again; one that another program keeps is left alone", async () => {
  const cluster = world();
  const rotation = startReplica(cluster, "a");
  await rotation.sync({ signal });
  const { content } = cluster.store;
  assert.ok(content);
  for (const field of ["ca.crt", "ca.key", "tls.crt", "tls.key"]) {
    cluster.store.content = { ...content, data: { ...content.data, [field]: "garbage" } };
    cluster.store.writes += 10;
    await rotation.sync({ signal });
    assert.equal(rotation.readiness(), undefined, field);
  }
  const { "ca.key": _key, ...foreign } = content.data;
  cluster.store.content = { ...content, data: foreign };
  await assert.rejects(rotation.sync({ signal }), { code: "invalid", message: /another program keeps it/ });
  assert.deepEqual(cluster.store.content.data, foreign);
});

test("an empty store that was made beforehand is filled", async () => {
  const cluster = world();
  cluster.store.content = { version: "0", note: "", data: {} };
  const rotation = startReplica(cluster, "a");
  await rotation.sync({ signal });
  assert.equal(rotation.readiness(), undefined);
});

test("a certificate for names that are not ours is issued again, and replicas that disagree do not quarrel", async () => {
  const cluster = world();
  const a = startReplica(cluster, "a", { hosts: ["one.lab.svc", "::1"] });
  const b = startReplica(cluster, "b", { hosts: ["two.lab.svc"] });
  await pass(cluster, [a, b, a, b], 0);
  const writes = cluster.store.writes;
  await pass(cluster, [a, b], 0);
  assert.equal(cluster.store.writes, writes);
  assert.equal(a.holder.pair.fingerprint, b.holder.pair.fingerprint);
});

test("a target that lost its bundle gets it back, and until then we are not ready", async () => {
  const cluster = world();
  const rotation = startReplica(cluster, "a");
  await rotation.sync({ signal });
  cluster.target.bundle = "";
  await rotation.sync({ signal });
  assert.equal(cluster.target.bundle, rotation.bundle);
  const cut = startReplica(cluster, "b", {
    gate: (what) => (what === "write target" ? Promise.reject(new Error("forbidden")) : Promise.resolve()),
  });
  cluster.target.bundle = "";
  await cut.sync({ signal });
  assert.match(cut.readiness() ?? "", /memory target: forbidden/);
  assert.equal(cut.holder.pair.fingerprint, rotation.holder.pair.fingerprint);
});

test("after a long sleep of the whole cluster everything is made new at once", async () => {
  const cluster = world();
  const rotation = startReplica(cluster, "a");
  await rotation.sync({ signal });
  cluster.clock.advance(11 * 365 * dayMs);
  assert.match(rotation.readiness() ?? "", /confirmed/);
  await rotation.sync({ signal });
  assert.equal(rotation.readiness(), undefined);
  assert.ok(trusts(cluster.target.bundle, rotation));
});

test("a rotation that drags on into the next one's time ends in a new authority, not in endless renewals", async () => {
  const cluster = world();
  const hourMs = 3_600_000;
  const policy = {
    authorityForMs: 4 * hourMs,
    authorityRenewBeforeMs: 2 * hourMs,
    servingForMs: 2 * hourMs,
    servingRenewBeforeMs: hourMs,
  };
  const a = startReplica(cluster, "a", { policy });
  await a.sync({ signal });
  cluster.clock.advance(2.1 * hourMs);
  await a.sync({ signal });
  // Switched by now, and the old authority still there; then no check for hours.
  cluster.clock.advance(61_000);
  await a.sync({ signal });
  assert.equal(authoritiesIn(a.bundle).length, 2);
  cluster.clock.advance(3.5 * hourMs);
  const writes = cluster.store.writes;
  await a.sync({ signal });
  assert.ok(cluster.store.writes - writes < 8, `${cluster.store.writes - writes} writes`);
  for (let minutes = 0; minutes < 10; minutes += 1) await pass(cluster, [a], 60_000);
  assert.equal(a.readiness(), undefined);
  assert.ok(a.holder.pair.notAfterMs - cluster.clock.wallNow() > 1.5 * hourMs);
});
