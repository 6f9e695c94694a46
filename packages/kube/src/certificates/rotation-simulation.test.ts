/**
 * Replicas that start, stop, crash and sleep at the worst moments, operations that finish in any order, and API
 * servers that learn of a bundle late. Through all of it: a ready replica serves what every API server trusts.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLogger, type Logger } from "@cocoon/core";
import { count, seededRandom, testSeed } from "@cocoon/testkit";
import { FakeClock } from "@cocoon/core/testing";
import { isIssuedBy, splitBundle } from "./pem.ts";
import { Rotation } from "./rotation.ts";
import { defaultPolicy } from "./rotation-plan.ts";
import { FakeStore, FakeTarget } from "./testing/fake-stores.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
/** Authorities of four hours: a rotation is always near. */
const policy = {
  ...defaultPolicy,
  authorityForMs: 4 * hourMs,
  authorityRenewBeforeMs: 2 * hourMs,
  servingForMs: 2 * hourMs,
  servingRenewBeforeMs: hourMs,
  settleMs: 20_000,
};
/** What an API server believes may be this old. */
const lagMs = policy.settleMs - 1;

class Simulation {
  readonly #seed: number;
  readonly #trace: string[] = [];
  readonly #random: () => number;
  readonly #waiting: {
    readonly owner: Replica;
    readonly what: string;
    readonly go: () => void;
    readonly fail: (why: Error) => void;
  }[] = [];
  readonly #clock = new FakeClock(Date.parse("2030-01-01T00:00:00Z"));
  readonly #store = new FakeStore();
  readonly #history: { readonly bundle: string; readonly fromMs: number }[] = [];
  readonly #target = new FakeTarget((bundle) =>
    this.#history.push({ bundle, fromMs: this.#clock.wallNow() }),
  );
  #replicas: Replica[] = [];
  #born = 0;
  readonly authorities = new Set<string>();
  checks = 0;

  constructor(seed: number) {
    this.#seed = seed;
    this.#random = seededRandom(seed);
  }

  #pick(below: number): number {
    return Math.floor(this.#random() * below);
  }

  async start(): Promise<void> {
    const replica: Replica = {
      name: `r${(this.#born += 1)}`,
      busy: false,
      rotation: undefined,
      gone: false,
      asleepUntilMs: 0,
    };
    const gate = (what: string) =>
      new Promise<void>((resolve, reject) =>
        this.#waiting.push({ owner: replica, what, go: resolve, fail: reject }),
      );
    const log = createTraceLogger((message) => this.#note(`${replica.name}: ${message}`));
    replica.rotation = new Rotation({
      store: this.#store.view(gate),
      targets: [this.#target.view(gate)],
      names: { commonName: "hook", hosts: ["hook.lab.svc"] },
      replica: replica.name,
      authorityName: "a",
      policy,
      clock: {
        now: () => this.#clock.now(),
        wallNow: () => this.#clock.wallNow(),
        schedule: (_ms, resume) => {
          void gate("sleep")
            .catch(() => undefined) // waiting cannot fail
            .then(() => resume());
          return () => undefined;
        },
      },
      log,
    });
    this.#replicas.push(replica);
    await this.#look(replica);
  }

  async #look(replica: Replica): Promise<void> {
    if (replica.busy || replica.gone || this.#isAsleep(replica)) return;
    replica.busy = true;
    void replica.rotation
      ?.sync({ signal: new AbortController().signal })
      .catch(() => undefined)
      .finally(() => (replica.busy = false));
    await this.#quiet();
  }

  /** A crash: nothing that was under way ends, and nothing is said. */
  #crash(replica: Replica): void {
    this.#note(`${replica.name} crashes`);
    replica.gone = true;
    this.#replicas = this.#replicas.filter((each) => each !== replica);
    for (const operation of this.#waiting.filter(({ owner }) => owner === replica))
      this.#waiting.splice(this.#waiting.indexOf(operation), 1);
  }

  /** Lets one operation of a running replica end, well or badly. */
  async #finishOne(): Promise<boolean> {
    const possible = this.#waiting.filter(({ owner }) => !this.#isAsleep(owner));
    const operation = possible[this.#pick(possible.length)];
    if (!operation) return false;
    this.#waiting.splice(this.#waiting.indexOf(operation), 1);
    this.#note(`${operation.owner.name}: ${operation.what}`);
    if (this.#random() < 0.03) operation.fail(new Error("connection reset"));
    else operation.go();
    await this.#quiet();
    return true;
  }

  #note(text: string): void {
    this.#trace.push(`${new Date(this.#clock.wallNow()).toISOString()} ${text}`);
    if (this.#trace.length > 120) this.#trace.shift();
  }

  #isAsleep({ asleepUntilMs }: Replica): boolean {
    return this.#clock.wallNow() < asleepUntilMs;
  }

  /** Until every replica waits for something that is decided here. */
  async #quiet(): Promise<void> {
    const isBlocked = (replica: Replica) =>
      !replica.busy || this.#waiting.some(({ owner }) => owner === replica);
    while (!this.#replicas.every(isBlocked)) await new Promise(setImmediate);
  }

  async finishAll(): Promise<void> {
    while (await this.#finishOne());
  }

  /** One thing happens. */
  async step(): Promise<void> {
    const dice = this.#random();
    const replica = this.#replicas[this.#pick(this.#replicas.length)];
    if (dice < 0.55) await this.#finishOne();
    else if (dice < 0.8 && replica) await this.#look(replica);
    else if (dice < 0.98) this.#clock.advance(this.#random() * minuteMs);
    else if (dice < 0.986 && replica) this.#putToSleep(replica);
    else if (dice < 0.99 && this.#replicas.length > 1 && replica) this.#crash(replica);
    else if (dice < 0.995 && this.#replicas.length < 4) await this.start();
    else if (dice < 0.997) this.#clock.advance(this.#random() * 6 * hourMs);
    else if (dice < 0.998 && this.#everybodyRemembers()) this.#loseStore();
  }

  #putToSleep(replica: Replica): void {
    replica.asleepUntilMs = this.#clock.wallNow() + this.#random() * hourMs;
    this.#note(`${replica.name} sleeps until ${new Date(replica.asleepUntilMs).toISOString()}`);
  }

  #loseStore(): void {
    this.#store.content = undefined;
    this.#note("the store is deleted");
  }

  /** Nothing bad happens for an hour: then every replica is ready. */
  async calmDown(): Promise<void> {
    for (const replica of this.#replicas) replica.asleepUntilMs = 0;
    for (let minute = 0; minute < 60; minute += 1) {
      for (const replica of this.#replicas) await this.#look(replica);
      await this.finishAll();
      this.check();
      this.#clock.advance(minuteMs);
    }
    for (const { name, rotation } of this.#replicas)
      assert.equal(
        rotation?.readiness(),
        undefined,
        `world ${this.#seed}: ${name}\n${this.#trace.join("\n")}`,
      );
  }

  /** When no replica remembers, a lost store is a fresh start, and a fresh start is not ready from the beginning. */
  #everybodyRemembers(): boolean {
    return this.#replicas.every(({ rotation }) => rotation?.bundle !== "");
  }

  readonly #verified = new Map<string, boolean>();

  #isTrusted(certificate: string, bundle: string): boolean {
    const key = certificate + bundle;
    const known = this.#verified.get(key);
    if (known !== undefined) return known;
    const trusted = splitBundle(bundle).some((authority) => isIssuedBy(certificate, authority));
    this.#verified.set(key, trusted);
    return trusted;
  }

  check(): void {
    const now = this.#clock.wallNow();
    const believed = this.#history.filter(
      ({ fromMs }, index) => fromMs <= now && (this.#history[index + 1]?.fromMs ?? now) >= now - lagMs,
    );
    for (const bundle of believed) for (const each of splitBundle(bundle.bundle)) this.authorities.add(each);
    for (const { rotation, name } of this.#replicas) {
      if (!rotation || rotation.readiness() !== undefined) continue;
      this.checks += 1;
      for (const { bundle } of believed)
        assert.ok(
          this.#isTrusted(rotation.holder.pair.certificate, bundle),
          `world ${this.#seed}: ${name} is ready with a certificate that an API server may not trust\n${this.#trace.join("\n")}`,
        );
    }
  }
}

function createTraceLogger(note: (text: string) => void): Logger {
  const write = (fields: unknown, message = "") => note(`${message} ${JSON.stringify(fields)}`);
  return { debug: () => undefined, info: write, warn: write, error: write, child: () => silentLogger };
}

interface Replica {
  readonly name: string;
  rotation: Rotation | undefined;
  busy: boolean;
  gone: boolean;
  asleepUntilMs: number;
}

test("a ready replica serves what every API server trusts", { timeout: 900_000 }, async (t) => {
  const seed = testSeed();
  let checks = 0;
  let authorities = 0;
  const worlds = count({ small: 8, full: 60 });
  for (let each = 0; each < worlds; each += 1) {
    const simulation = new Simulation(seed + each);
    await simulation.start();
    await simulation.finishAll();
    await simulation.start();
    for (let step = 0; step < 1500; step += 1) {
      await simulation.step();
      simulation.check();
    }
    await simulation.calmDown();
    checks += simulation.checks;
    authorities += simulation.authorities.size;
  }
  t.diagnostic(`${worlds} worlds, ${authorities} authorities, ${checks} checks of a ready replica`);
  assert.ok(authorities > worlds * 2, "authorities were replaced");
  assert.ok(checks > worlds * 100, "replicas were ready most of the time");
});
