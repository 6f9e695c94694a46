import assert from "node:assert/strict";
import { test } from "node:test";
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace";
import { silentLogger } from "@cocoon/core";
import type { Desired } from "../provider/observed.ts";
import type { Step } from "../provider/step.ts";
import { MachineTrace } from "./machine-trace.ts";

function startTrace() {
  const exporter = new InMemorySpanExporter();
  const provider = new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] });
  const traced = new MachineTrace(provider.getTracer("test"));
  const run = (desired: Desired, step: Step, work: () => void = () => undefined) =>
    traced.run({ step, desired, facts: { "vm.name": "vk-lab-demo" }, log: silentLogger }, async () => work());
  const names = () => exporter.getFinishedSpans().map((span) => span.name);
  return { exporter, traced, run, names };
}

const push: Step = { kind: "push" };

test("a hibernation is one trace, with a span per step and what the steps noted", async () => {
  const { exporter, traced, run, names } = startTrace();
  await run("asleep", { kind: "announce", state: "hibernating" });
  await run("asleep", { kind: "save", vmId: "VM1" });
  await run("asleep", push, () => traced.note({ "snapshot.sent_bytes": 7 }));
  await run("asleep", { kind: "announce", state: "hibernated" });
  await run("asleep", { kind: "showAsleep" });
  await run("asleep", { kind: "showAsleep" });
  const wanted = ["announce hibernating", "save", "push", "announce hibernated", "showAsleep", "hibernate"];
  assert.deepEqual(names(), wanted);
  const spans = exporter.getFinishedSpans();
  const root = spans.find(({ name }) => name === "hibernate");
  assert.equal(root?.attributes["vm.name"], "vk-lab-demo");
  for (const span of spans) {
    assert.equal(span.spanContext().traceId, root?.spanContext().traceId);
    if (span !== root) assert.equal(span.parentSpanContext?.spanId, root?.spanContext().spanId);
  }
  assert.equal(spans.find(({ name }) => name === "push")?.attributes["snapshot.sent_bytes"], 7);
});

test("a failed step is a span with its error, and the trace continues with the next attempt", async () => {
  const { exporter, run, names } = startTrace();
  const fail = () => {
    throw new Error("the registry does not answer");
  };
  await assert.rejects(run("asleep", push, fail), /does not answer/);
  await run("asleep", push);
  await run("asleep", { kind: "showAsleep" });
  assert.deepEqual(names(), ["push", "push", "showAsleep", "hibernate"]);
  assert.match(exporter.getFinishedSpans()[0]?.status.message ?? "", /does not answer/);
});

test("a hibernation that is cancelled ends, and steps that belong to no transition are not traced", async () => {
  const { exporter, run, names } = startTrace();
  await run("running", { kind: "probe" });
  await run("running", { kind: "publish" });
  assert.deepEqual(names(), []);
  await run("asleep", { kind: "save", vmId: "VM1" });
  await run("running", { kind: "resume", vmId: "VM1" });
  assert.deepEqual(names(), ["save", "hibernate"]);
  assert.equal(exporter.getFinishedSpans()[1]?.attributes["cancelled"], true);
  await run("running", { kind: "claim", digest: "sha256:d1" });
  await run("running", { kind: "settled" });
  await run("running", { kind: "clearDigest" });
  assert.deepEqual(names().slice(2), ["claim", "settled", "clearDigest", "wake"]);
});
