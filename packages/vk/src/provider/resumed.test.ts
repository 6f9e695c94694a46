/** What is counted and published besides the steps themselves. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createRegistry, Fault, silentLogger } from "@cocoon/core";
import type { Pod } from "@cocoon/kubelet";
import { eventually } from "@cocoon/testkit";
import type { Vm, VmRuntime } from "@cocoon/vm";
import { createVkMetrics } from "../metrics.ts";
import { PodWriter } from "../pod-writer.ts";
import { defaultProbeTimes } from "../probes/probe.ts";
import { applyStep } from "./apply.ts";
import { startProbe } from "./readiness.ts";
import type { StepContext } from "./step-context.ts";
import { TrackedMachine } from "./tracked-machine.ts";

const vm = { id: "VM1", epoch: "1", state: "running", config: { os: "linux" }, nics: [] } as unknown as Vm;

function open(state: string, runtime: Partial<VmRuntime> = {}) {
  const registry = createRegistry("test");
  const annotations = { "vm.cocoonstack.io/name": "vk-lab-demo", "vm.cocoonstack.io/lifecycle-state": state };
  const metadata = { namespace: "lab", name: "demo", uid: "u", annotations };
  const pod = { metadata, spec: { containers: [] } } as unknown as Pod;
  const events: string[] = [];
  const stop = new AbortController();
  const context = {
    signal: stop.signal,
    runtime,
    tracked: new TrackedMachine(pod, new PodWriter({} as never, pod)),
    metrics: createVkMetrics(registry),
    log: silentLogger,
    probeTimes: defaultProbeTimes,
    status: { hostIp: "", hibernatedPhase: "Running" },
    requeue: () => undefined,
    emit: ({ reason }: { readonly reason: string }) => void events.push(reason),
    report: () => Promise.reject(new Fault("unavailable", "API server away")),
  } as unknown as StepContext;
  return { context, events, stop, scrape: () => registry.metrics() };
}

test("a machine that an earlier process was making is continued, counted and published", async () => {
  const { context, events, stop, scrape } = open("creating", {
    inspect: () => Promise.reject(new Fault("unavailable", "the engine hangs")),
    address: () => Promise.resolve(undefined),
  });
  startProbe(context, vm);
  assert.deepEqual(events, ["ResumedAfterRestart"]);
  assert.match(await scrape(), /startup_resume_total\{op="ready"\} 1/);
  await eventually(async () => assert.match(await scrape(), /vm_inspect_transient_fail_total [1-9]/));
  stop.abort();
});

test("a machine that was ready is adopted without an event", () => {
  const { context, events, stop } = open("ready");
  startProbe(context, vm);
  assert.deepEqual(events, []);
  stop.abort();
});

test("a failure that cannot be published is counted", async ({ signal }) => {
  const { context, events, scrape } = open("ready");
  const step = { kind: "refuse", reason: "VMGone", message: "gone" } as const;
  await applyStep(context, { step, record: undefined }, { signal });
  assert.deepEqual(events, ["VMGone"]);
  await eventually(async () => assert.match(await scrape(), /pod_evict_failure_total 1/));
});

test("evidence that is missing or not available yet is counted by its verdict", async ({ signal }) => {
  const { context, scrape } = open("hibernated");
  for (const reason of ["HibernateEvidenceUnavailable", "HibernateEvidenceFailed"]) {
    const step = { kind: "refuse", reason, message: "no" } as const;
    await assert.rejects(applyStep(context, { step, record: undefined }, { signal }));
  }
  assert.match(await scrape(), /hibernate_evidence_total\{verdict="unavailable"\} 1/);
  assert.match(await scrape(), /hibernate_evidence_total\{verdict="failed"\} 1/);
});
