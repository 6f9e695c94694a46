import assert from "node:assert/strict";
import { Duplex } from "node:stream";
import { test } from "node:test";
import { silentLogger } from "@cocoon/core";
import type { Vm, VmRuntime } from "@cocoon/vm";
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

interface Told {
  readonly annotations: Record<string, string | null>;
  readonly events: string[];
}

/** Runs it on an engine whose guests end every command with that code; undefined = no commands at all. */
async function prepare(machine: Vm, engine: Partial<VmRuntime> & { readonly code?: number }): Promise<Told> {
  const told: Told = { annotations: {}, events: [] };
  const stream = () => ({ end: () => undefined, resume: () => undefined });
  const runtime = {
    describe: () => Promise.resolve({ can: { exec: engine.code !== undefined } }),
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
    log: silentLogger,
    tell: ({ reason }: { reason: string }) => void told.events.push(reason),
    writer: {
      write: (texts: Record<string, string | null>) =>
        Promise.resolve(void Object.assign(told.annotations, texts)),
    },
  } as unknown as StepContext;
  await prepareGuest(context, { vm: machine, cloned: true, times: { everyMs: 1, forMs: 20 } }, { signal });
  return told;
}

const state = "vm.cocoonstack.io/post-clone-state";
const hint = "vm.cocoonstack.io/post-clone-hint";

test("a clone without agent is told who it is by a command", async () => {
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
  assert.deepEqual(failing.events, ["PostCloneExecExhausted"]);
});

test("a guest with an agent needs nothing of it", async () => {
  assert.deepEqual(await prepare(vm({ guest: "refreshing" }), { code: 0 }), { annotations: {}, events: [] });
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

test("a Windows guest takes its fixed address over the console, and a failure is told", async () => {
  const fixed = { ...nic, address: { ip: "10.0.0.7", prefix: 24, gateway: "10.0.0.1" } };
  const windows = vm({ nics: [fixed], config: { ...vm({}).config, os: "windows" } });
  const console = sac();
  const done = await prepare(windows, { openConsole: () => Promise.resolve(console) });
  assert.equal(console.ip, "10.0.0.7");
  assert.deepEqual(done.events, []);
  const failed = await prepare(windows, { openConsole: () => Promise.reject(new Error("in use")) });
  assert.deepEqual(failed.events, ["WindowsStaticIPFailed"]);
});
