/**
 * What every `VmRuntime` must do, as tests. Guests really run where the backend has real guests: one machine is booted
 * and saved once, and most tests work on clones of it, which come up in a second.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { RuntimeDescription, VmRuntime } from "../runtime.ts";
import type { Vm } from "../vm.ts";
import { describeGuests } from "./guest-contract.ts";
import {
  bootMs,
  put,
  refuses,
  runIn,
  startCounter,
  type OpenHarness,
  type RuntimeHarness,
} from "./harness.ts";
import { describeLifecycle } from "./lifecycle-contract.ts";
import { describeSnapshots } from "./snapshot-contract.ts";
import { describeWatch } from "./watch-contract.ts";

/** What the tests share: the harness, and a snapshot of a machine that counts. */
export interface Bench {
  readonly harness: RuntimeHarness;
  readonly runtime: VmRuntime;
  /** Snapshot of a ready machine with a running counter and /root/file saying "before". */
  readonly golden: string;
  readonly signal: AbortSignal;
  readonly can: RuntimeDescription["can"];
  /** A ready clone of the golden snapshot, removed at the end of the test. */
  readonly clone: (name: string) => Promise<Vm & AsyncDisposable>;
  /** Removes the VM at the end of the scope, whatever state it is in. */
  readonly owned: (vm: Vm) => Vm & AsyncDisposable;
}

export function vmRuntimeContract(name: string, open: OpenHarness): void {
  describe(`VmRuntime contract: ${name}`, () => {
    const stop = new AbortController();
    let harness: RuntimeHarness | undefined;
    const bench: { current?: Bench } = {};
    const use = (): Bench => {
      assert.ok(bench.current, "the bench was not set up");
      return bench.current;
    };

    before(async () => {
      harness = await open({ signal: stop.signal });
      bench.current = await setUp(harness, stop.signal);
    });

    after(async () => {
      if (harness) await assertTidy(harness);
      stop.abort();
      await harness?.[Symbol.asyncDispose]();
    });

    it("says notFound, and nothing else, for what it does not know", async () => {
      const { runtime, signal } = use();
      await refuses(runtime.inspect("no-such-vm", { signal }), "notFound", /VM not found/);
      await refuses(runtime.start("no-such-vm", { signal }), "notFound");
      await refuses(runtime.stop("no-such-vm", { signal }), "notFound");
      await refuses(runtime.remove("no-such-vm", { force: true, signal }), "notFound");
      await refuses(runtime.snapshots.save("no-such-vm", { signal }), "notFound");
      await refuses(runtime.snapshots.inspect("no-such", { signal }), "notFound", /snapshot not found/);
      await refuses(runtime.snapshots.remove("no-such", { signal }), "notFound");
      await refuses(runtime.clone({ name: "x", snapshot: "no-such" }, { signal }), "notFound");
      await refuses(runtime.run({ name: "x", image: "no-such-image" }, { signal }), "notFound");
      await refuses(runtime.images.inspect("no-such-image", { signal }), "notFound");
    });

    it("describes itself", async () => {
      const { runtime, signal } = use();
      const about = await runtime.describe({ signal });
      assert.ok(about.version.length > 0);
      assert.ok(about.minimumMemoryBytes > 0);
    });

    describeLifecycle(use);
    describeGuests(use);
    describeSnapshots(use);
    describeWatch(use);
  });
}

async function setUp(harness: RuntimeHarness, signal: AbortSignal): Promise<Bench> {
  const { runtime } = harness;
  const owned = (vm: Vm) => ({
    ...vm,
    [Symbol.asyncDispose]: () => runtime.remove(vm.id, { force: true, signal }).catch(ignoreGone),
  });
  await using first = owned(
    await runtime.run({ name: "golden", image: harness.image, ...harness.small }, { signal }),
  );
  await runtime.waitReady(first.id, { signal: AbortSignal.timeout(bootMs) });
  await startCounter(runtime, first.id);
  await put(runtime, first.id, { path: "/root/file", text: "before" });
  assert.equal((await runIn(runtime, first.id, { argv: ["sync"] })).code, 0);
  const { snapshot } = await runtime.snapshots.save(first.id, { name: "golden", signal });
  return {
    harness,
    runtime,
    golden: snapshot.id,
    signal,
    can: (await runtime.describe({ signal })).can,
    owned,
    clone: async (name) => {
      const vm = owned(await runtime.clone({ name, snapshot: snapshot.id }, { signal }));
      await runtime.waitReady(vm.id, { signal: AbortSignal.timeout(bootMs) });
      return vm;
    },
  };
}

function ignoreGone(error: unknown): void {
  if (!(error instanceof Error && "code" in error && error.code === "notFound")) throw error;
}

/** Every test has removed what it made; with the golden snapshot gone, nothing may be left. */
async function assertTidy(harness: RuntimeHarness): Promise<void> {
  const signal = AbortSignal.timeout(60_000);
  assert.deepEqual(
    (await harness.runtime.list({ signal })).map((vm) => vm.name),
    [],
  );
  for (const snapshot of await harness.runtime.snapshots.list({ signal }))
    await harness.runtime.snapshots.remove(snapshot.id, { signal });
  assert.deepEqual(await harness.leftovers(), []);
}
