import assert from "node:assert/strict";
import { test } from "node:test";
import { createRegistry, Fault, silentLogger } from "@cocoon/core";
import type { Vm } from "@cocoon/vm";
import { createVkMetrics } from "../metrics.ts";
import type { StepContext } from "./step-context.ts";
import { showLoading } from "./show-loading.ts";

const mebibyte = 1024 * 1024;
const prefix = "vm.cocoonstack.io";

function createContext(loadings: readonly Vm["loading"][], annotations: Record<string, string>) {
  const messages: string[] = [];
  const left = [...loadings];
  const announce = ({ state, message }: { readonly state: string; readonly message?: string }) => {
    messages.push(`${state}: ${message}`);
    return Promise.resolve(true);
  };
  const pod = { metadata: { namespace: "lab", name: "demo", annotations }, spec: { containers: [] } };
  const context = {
    tracked: { writer: { pod, announce }, exclusively: (work: () => Promise<void>) => work() },
    runtime: {
      inspect: () =>
        left.length === 0
          ? Promise.reject(new Fault("notFound", "gone"))
          : Promise.resolve({ loading: left.shift() }),
    },
    metrics: createVkMetrics(createRegistry("test")),
    log: silentLogger,
  };
  return { context: context as unknown as StepContext, messages };
}

const loading = { doneBytes: 3 * mebibyte, totalBytes: 9 * mebibyte, hasAnswered: true };
const ready = {
  [`${prefix}/name`]: "vk-lab-demo",
  [`${prefix}/lifecycle-state`]: "ready",
  [`${prefix}/lifecycle-observed-generation`]: "1",
  "cocoonset.cocoonstack.io/generation": "1",
};

test("what has arrived and what holds it up is shown until all is here", async (t) => {
  const { context, messages } = createContext(
    [loading, { ...loading, problem: "no registry" }, undefined],
    ready,
  );
  await showLoading(context, "VM1", { signal: t.signal, everyMs: 1 });
  assert.deepEqual(messages, [
    "ready: loading, 3 of 9 MiB are on the node",
    "ready: loading, 3 of 9 MiB are on the node; held up: no registry",
  ]);
  assert.equal((await context.metrics.loading_left_bytes.get()).values[0]?.value, 0);
});

test("a machine that failed, or has a newer generation to reach, is not called ready for that", async (t) => {
  for (const annotations of [
    { ...ready, [`${prefix}/lifecycle-state`]: "failed" },
    { ...ready, "cocoonset.cocoonstack.io/generation": "2" },
  ]) {
    const { context, messages } = createContext([loading], annotations);
    await showLoading(context, "VM1", { signal: t.signal, everyMs: 1 });
    assert.deepEqual(messages, []);
  }
});
