/** The checks and the generator of test/chaos, without a platform. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { seededRandom } from "@cocoon/testkit";
import { checkGuestState } from "./chaos/check.ts";
import { maxMachines, StepGenerator } from "./chaos/generate.ts";
import { newMachine, newModel, listMachines } from "./chaos/model.ts";
import { expectOperation } from "./chaos/operations.ts";
import { parseGuestState, type GuestState } from "./chaos/oracle.ts";
import { makeReport, renderReport } from "./chaos/report.ts";
import { parseHistory, type Step } from "./chaos/steps.ts";

const machine = { ...newMachine("alpha-0"), token: "alpha-0.7", bootId: "b1", counter: 10 };
const intact: GuestState = {
  hostname: "vk-default-alpha-0",
  bootId: "b1",
  diskToken: "alpha-0.7",
  diskIntact: true,
  memoryToken: "alpha-0.7",
  counter: 11,
};
const kinds = (state: Partial<GuestState>, mayBeLost = false) =>
  checkGuestState({ ...machine, memoryMayBeLost: mayBeLost }, { ...intact, ...state }).map(
    ({ kind }) => kind,
  );

test("a machine that remembers everything breaks no promise", () => {
  assert.deepEqual(kinds({}), []);
});

test("memory may be gone only after the machine was ended by force", () => {
  const booted = { bootId: "b2", memoryToken: "", counter: 0 };
  assert.deepEqual(kinds(booted), ["lost"]);
  assert.deepEqual(kinds(booted, true), []);
});

test("older disk, damaged disk, another machine's disk and older memory are distinguished", () => {
  assert.deepEqual(kinds({ diskToken: "alpha-0.6" }), ["lost"]);
  assert.deepEqual(kinds({ diskIntact: false }), ["lost"]);
  assert.deepEqual(kinds({ diskToken: "beta-0.7" }), ["foreign"]);
  assert.deepEqual(kinds({ memoryToken: "alpha-0.6" }, true), ["old memory"]);
  assert.deepEqual(kinds({ counter: 9 }), ["old memory"]);
  assert.deepEqual(kinds({ hostname: "vk-default-beta-0" }), ["foreign"]);
});

test("a blank machine is a lost one", () => {
  assert.deepEqual(kinds(parseGuestState("hostname=vk-default-alpha-0\nboot=b3\n"), true), ["lost"]);
});

function generate(seed: number, length: number): Step[] {
  const generator = new StepGenerator({ random: seededRandom(seed), only: [], except: [] });
  const model = newModel();
  return Array.from({ length }, () => {
    const step = generator.next(model);
    for (const operation of step.operations) expectOperation(model, operation);
    for (const { machine } of listMachines(model)) machine.token ||= `${machine.pod}.1`;
    const machines = listMachines(model).length;
    assert.ok(machines <= maxMachines, "a run needs no more machines than a small host has room for");
    return step;
  });
}

test("a seed gives one history, which a file can hold and the model can follow", () => {
  for (let seed = 1; seed <= 50; seed += 1) {
    const steps = generate(seed, 60);
    assert.deepEqual(generate(seed, 60), steps);
    assert.deepEqual(parseHistory(JSON.stringify({ seed, steps })).steps, steps);
  }
});

test("every operation and every fault occurs", () => {
  const steps = Array.from({ length: 30 }, (_unused, seed) => generate(seed, 60)).flat();
  const operations = new Set(steps.flatMap((step) => step.operations.map(({ kind }) => kind)));
  const faults = new Set(steps.flatMap((step) => step.faults.map(({ kind }) => kind)));
  assert.equal(operations.size, 13);
  assert.equal(faults.size, 10);
});

test("an hour has more than 300 faults, and every disaster several times", () => {
  // About 150 steps fit into an hour on two cores.
  const hours = Array.from({ length: 20 }, (_unused, seed) => generate(seed, 150));
  const faults = hours.flat().flatMap((step) => step.faults.map(({ kind }) => kind));
  const perHour = (kind: string) => faults.filter((each) => each === kind).length / hours.length;
  assert.ok(faults.length / hours.length > 350, String(faults.length / hours.length));
  for (const kind of ["powerCut", "etcdRestore", "nodeLost"]) assert.ok(perHour(kind) >= 3, kind);
});

test("every hour has every operation and every fault", () => {
  for (let seed = 0; seed < 100; seed += 1) {
    const steps = generate(2026 + seed, 150);
    const kinds = new Set(
      steps.flatMap(({ operations, faults }) => [...operations, ...faults]).map(({ kind }) => kind),
    );
    assert.equal(kinds.size, 23, `seed ${2026 + seed} has only ${[...kinds].join(", ")}`);
  }
});

test("the copy of etcd that is put back knows every machine", () => {
  for (let seed = 1; seed <= 50; seed += 1) {
    let copied: number | undefined;
    let era = 0;
    for (const step of generate(seed, 60)) {
      if (step.copiesEtcd) copied = era;
      const changes = ["create", "delete", "scale", "rollout", "restore", "clone"];
      if (step.operations.some(({ kind }) => changes.includes(kind))) era += 1;
      if (step.faults.some(({ kind }) => kind === "etcdRestore")) assert.equal(copied, era);
    }
  }
});

test("a fork holds content of the machine it was forked from, under its own name", () => {
  const fork = { ...newMachine("alpha-1"), forkedFrom: "alpha-0" };
  const check = (state: Partial<GuestState>) =>
    checkGuestState(fork, { ...intact, hostname: "vk-default-alpha-1", ...state }).map(({ kind }) => kind);
  assert.deepEqual(check({}), []);
  assert.deepEqual(check({ diskToken: "" }), ["lost"]);
  assert.deepEqual(check({ diskToken: "beta-0.3" }), ["lost"]);
  assert.deepEqual(check({ hostname: "vk-default-alpha-0" }), ["foreign"]);
});

test("the report counts faults that hit and takes the median of the times to recover", () => {
  const step: Step = { operations: [], faults: [] };
  const fault = { kind: "kill", part: "etcd" } as const;
  const results = [1_000, 9_000, 2_000].map((recoverMs) => ({
    step,
    faults: [fault],
    recoverMs,
    recoveries: [{ part: "etcd", ms: recoverMs / 2, disturbed: recoverMs === 9_000 } as const],
    violations: [],
    startedFromOutside: [],
  }));
  const report = makeReport([{ seed: 5, results }], 2);
  assert.deepEqual(report.faults, { "kill etcd": 3 });
  assert.deepEqual(report.platformSeconds, { count: 3, median: 2, worst: 9 });
  assert.deepEqual(report.partSeconds, { count: 2, median: 1, worst: 1 });
  assert.deepEqual(report.disturbedPartSeconds, { count: 1, median: 4.5, worst: 4.5 });
  assert.match(renderReport(report), /1 histories, 3 steps, 3 faults; seeds 5\./);
});
