import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test, type TestContext } from "node:test";
import { Fault, lockFile, silentLogger } from "@cocoon/core";
import { eventually, temporaryDirectory } from "@cocoon/testkit";
import type { Component } from "./component.ts";
import { isSupervised, readRestartStates, RestartStates } from "./restart-states.ts";
import { findRunning, readRecord } from "./run-records.ts";
import { componentStatus, startComponents, stopComponents } from "./runner.ts";
import { superviseComponents, type SupervisorTimes } from "./supervisor.ts";

const quick: SupervisorTimes = { intervalMs: 10, baseMs: 20, maxMs: 200, stableMs: 60_000, needsMs: 300 };

function sleeper(name: string, more: Partial<Component> = {}): Component {
  return {
    name,
    summary: "sleeps",
    needs: [],
    command: "/bin/sleep",
    args: ["600"],
    probe: () => Promise.resolve(),
    ...more,
  };
}

async function started(t: TestContext, components: readonly Component[]) {
  const { path: directory, ...owned } = await temporaryDirectory();
  const stop = new AbortController();
  const lock = join(directory, "lock");
  await startComponents(components, { directory, signal: stop.signal });
  const supervising = superviseComponents({
    directory,
    components,
    lock,
    log: silentLogger,
    signal: stop.signal,
    times: quick,
  });
  t.after(async () => {
    stop.abort();
    await supervising;
    await stopComponents(components, { directory });
    await owned[Symbol.asyncDispose]();
  });
  const pid = async (name: string) => (await findRunning(directory, name))?.pid;
  const kill = async (name: string) => {
    const victim = await pid(name);
    assert.ok(victim);
    process.kill(victim, "SIGKILL");
    return victim;
  };
  return { directory, lock, pid, kill, supervising };
}

test("a component that is killed is started again, and counted", async (t) => {
  const component = sleeper("one");
  const { directory, pid, kill } = await started(t, [component]);
  const signal = t.signal;
  for (const round of [1, 2]) {
    const before = await kill("one");
    await eventually(async () => {
      const now = await pid("one");
      assert.ok(now !== undefined && now !== before);
      assert.equal((await readRestartStates(directory)).get("one")?.restarts, round);
    });
  }
  const status = await componentStatus(component, { directory, signal });
  assert.deepEqual([status.state, status.restarts], ["ready", 2]);
  assert.equal((await readRecord(directory, "one"))?.identity.pid, await pid("one"));
  assert.equal(await isSupervised(directory), true);
});

test("a component that was stopped on purpose stays stopped", async (t) => {
  const [one, two] = [sleeper("one"), sleeper("two")];
  const { directory, pid, kill } = await started(t, [one, two]);
  await stopComponents([one], { directory, onlyListed: true });
  const before = await kill("two");
  await eventually(async () => assert.notEqual((await pid("two")) ?? before, before));
  assert.equal(await pid("one"), undefined);
});

test("while a command holds the lock nothing is restarted", async (t) => {
  const component = sleeper("one");
  const { directory, lock, pid, kill } = await started(t, [component]);
  {
    await using _held = await lockFile(lock, { signal: t.signal });
    await kill("one");
    await eventually(async () => {
      const status = await componentStatus(component, { directory, signal: t.signal });
      assert.deepEqual([status.state, status.identity], ["restarting", undefined]);
    });
    await new Promise((resolve) => setTimeout(resolve, 5 * quick.baseMs));
    assert.equal(await pid("one"), undefined);
  }
  await eventually(async () => assert.ok(await pid("one")));
});

test("a restart waits for what the component needs, but not for ever", async (t) => {
  let needed = true;
  const base = sleeper("base", {
    probe: () => (needed ? Promise.resolve() : Promise.reject(new Fault("unavailable", "not yet"))),
  });
  const dependent = sleeper("dependent", { needs: ["base"] });
  const { directory, pid, kill } = await started(t, [base, dependent]);
  needed = false;
  await kill("dependent");
  await eventually(async () => {
    const { state, detail } = await componentStatus(dependent, { directory, signal: t.signal });
    assert.equal(state, "restarting");
    assert.match(detail, /dependent is started again when possible: it waits for base/);
  });
  needed = true;
  await eventually(async () => assert.ok(await pid("dependent")));
  needed = false;
  await kill("dependent");
  await eventually(async () => assert.ok(await pid("dependent")));
});

test("a component that ends at once is retried with growing pauses", async (t) => {
  const component = sleeper("broken");
  const { directory, kill } = await started(t, [component]);
  Object.assign(component, { command: "/bin/false", args: [] });
  await kill("broken");
  const count = async () => (await readRestartStates(directory)).get("broken")?.restarts ?? 0;
  await eventually(async () => assert.ok((await count()) >= 4));
  const began = performance.now();
  const before = await count();
  await eventually(async () => assert.ok((await count()) >= before + 2));
  assert.ok(performance.now() - began > quick.maxMs, "pauses have grown");
});

test("the supervisor ends when its directory is removed", async (t) => {
  const component = sleeper("one");
  const { directory, supervising } = await started(t, [component]);
  await stopComponents([component], { directory });
  // In one step: files that the supervisor writes meanwhile keep a directory from being removed.
  const removed = `${directory}-removed`;
  await rename(directory, removed);
  t.after(() => rm(removed, { recursive: true, force: true }));
  await supervising;
  assert.equal(existsSync(directory), false);
});

test("a state that could not be written does not keep later ones from being written", async () => {
  await using owned = await temporaryDirectory();
  const states = await RestartStates.open(owned.path);
  await rename(join(owned.path, "run"), join(owned.path, "away"));
  await writeFile(join(owned.path, "run"), ""); // a file where the directory was
  await assert.rejects(states.addRestart("one"));
  await rm(join(owned.path, "run"));
  await rename(join(owned.path, "away"), join(owned.path, "run"));
  await states.addRestart("one");
  assert.equal((await readRestartStates(owned.path)).get("one")?.restarts, 2);
});
