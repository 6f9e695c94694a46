import assert from "node:assert/strict";
import { Duplex } from "node:stream";
import { test } from "node:test";
import { createRegistry, silentLogger } from "@cocoon/core";
import type { Vm, VmRuntime } from "@cocoon/vm";
import { createVkMetrics } from "../metrics.ts";
import { prepareGuest } from "./prepare-guest.ts";
import type { StepContext } from "./step-context.ts";

const { signal } = new AbortController();
const nic = { mac: "02:00:00:00:00:07", backend: "cni", queues: 1, queueSize: 256, forwards: [] } as const;

function vm(more: Partial<Vm>): Vm {
  const config = { cpus: 1, memoryBytes: 1, storageBytes: 1, os: "linux", labels: {} } as const;
  return {
    id: "VM1",
    name: "vk-a",
    guest: "unknown",
    hypervisor: "qemu",
    nics: [nic],
    config,
    ...more,
  } as Vm;
}

interface Outcome {
  readonly annotations: Record<string, string | null>;
  readonly events: string[];
  /** As they are scraped. */
  metrics: string;
}

/** Runs it on an engine whose guests end every command with that code; undefined = no commands at all. */
async function prepare(
  machine: Vm,
  engine: Partial<VmRuntime> & { readonly code?: number },
  { woken = false, os = "linux" } = {},
): Promise<Outcome> {
  const outcome: Outcome = { annotations: {}, events: [], metrics: "" };
  const registry = createRegistry("test");
  const stream = () => ({ end: () => undefined, resume: () => undefined });
  const runtime = {
    address: () => Promise.resolve({ ip: "10.0.0.1", routable: true, forwards: [] }),
    exec: () =>
      Promise.resolve({
        stdin: stream(),
        stdout: stream(),
        stderr: stream(),
        exited: Promise.resolve({ code: engine.code }),
        [Symbol.asyncDispose]: () => Promise.resolve(),
      }),
    ...engine,
  };
  const context = {
    runtime,
    description: { can: { exec: engine.code !== undefined } },
    metrics: createVkMetrics(registry),
    log: silentLogger,
    emit: ({ reason }: { reason: string }) => void outcome.events.push(reason),
    tracked: {
      writer: {
        pod: { metadata: { annotations: { [system]: os } } },
        write: (texts: Record<string, string | null>) =>
          Promise.resolve(void Object.assign(outcome.annotations, texts)),
      },
    },
  } as unknown as StepContext;
  const times = { everyMs: 1, forMs: 20, addressMs: 5, renewAfterMs: 0 };
  await prepareGuest(context, { vm: machine, cloned: true, woken, times }, { signal });
  outcome.metrics = await registry.metrics();
  return outcome;
}

const system = "cocoonset.cocoonstack.io/os";
const state = "vm.cocoonstack.io/post-clone-state";
const hint = "vm.cocoonstack.io/post-clone-hint";

test("a clone without agent is given its identity by a command", async () => {
  const { annotations, events } = await prepare(vm({}), { code: 0 });
  assert.equal(annotations[state], "done");
  assert.deepEqual(events, ["PostCloneSucceeded"]);
});

test("where that cannot be, people get the script", async () => {
  const without = await prepare(vm({}), {});
  assert.match(Buffer.from(without.annotations[hint] ?? "", "base64").toString(), /^echo 3 >/);
  assert.equal(without.annotations[state], undefined);
  const failing = await prepare(vm({}), { code: 2 });
  assert.equal(failing.annotations[state], "failed");
  assert.match(failing.annotations["vm.cocoonstack.io/post-clone-errors"] ?? "", /ended with 2/);
  assert.ok(failing.annotations[hint]);
  assert.deepEqual(failing.events, ["PostCloneExecAttemptFailed", "PostCloneExecExhausted"]);
  assert.match(failing.metrics, /postclone_total\{kind="exec",result="failed"\} 1/);
  assert.match(failing.metrics, /postclone_retry_attempts_count\{result="failed"\} 1/);
});

test("a guest with an agent needs nothing of it", async () => {
  const { annotations, events } = await prepare(vm({ guest: "refreshing" }), { code: 0 });
  assert.deepEqual({ annotations, events }, { annotations: {}, events: [] });
});

/** Windows' console, as far as addresses go. */
function sac(): Duplex & { ip: string } {
  const console = Object.assign(
    new Duplex({
      read: () => undefined,
      write: (data: Buffer, _encoding, done) => {
        for (const line of data.toString().split("\r\n").slice(0, -1)) {
          const [, , ip] = line.split(" ");
          if (ip !== undefined) console.ip = ip;
          console.push(line === "i" ? `Net: 4, Ip=${console.ip}\r\nSAC>` : "SAC>");
        }
        done();
      },
    }),
    { ip: "169.254.1.2" },
  );
  return console;
}

test("a Windows guest takes its fixed address over the console, and a failure is published", async () => {
  const fixed = { ...nic, address: { ip: "10.0.0.7", prefix: 24, gateway: "10.0.0.1" } };
  const windows = vm({ nics: [fixed], config: { ...vm({}).config, os: "windows" } });
  const console = sac();
  const done = await prepare(windows, { openConsole: () => Promise.resolve(console) });
  assert.equal(console.ip, "10.0.0.7");
  assert.deepEqual(done.events, []);
  const named = await prepare(
    vm({ nics: [fixed] }),
    { openConsole: () => Promise.reject(new Error("in use")) },
    { os: "Windows" },
  );
  assert.deepEqual(named.events, ["WindowsStaticIPFailed"], "by the pod, in any case");
  const failed = await prepare(windows, { openConsole: () => Promise.reject(new Error("in use")) });
  assert.deepEqual(failed.events, ["WindowsStaticIPFailed"]);
});

test("a woken machine's address is waited for; a Windows guest is asked to renew its lease", async () => {
  const agent = vm({ guest: "refreshing" });
  const found = await prepare(agent, { code: 0 }, { woken: true });
  assert.match(found.metrics, /wake_ip_wait_total\{result="ok"\} 1/);
  const none = () => Promise.resolve(undefined);
  const late = await prepare(agent, { code: 0, address: none }, { woken: true });
  assert.deepEqual(late.events, ["WakeIPWaitTimeout"]);
  assert.match(late.metrics, /wake_ip_wait_total\{result="timeout"\} 1/);
  const cloned = await prepare(agent, { code: 0, address: none });
  assert.deepEqual(cloned.events, ["PostCloneIPWaitTimeout"]);
  const windows = vm({ config: { ...agent.config, os: "windows" } });
  const renewed = await prepare(windows, { code: 0, address: none }, { woken: true });
  assert.match(renewed.metrics, /wake_renew_nudge_total 1/);
});
