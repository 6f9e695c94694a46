/** The small rules of vk-cocoon, as tables. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { LogOptions, Pod } from "@cocoon/kubelet";
import { journalCommand, lastLines } from "./guest/logs.ts";
import { shellWords } from "./guest/shell-words.ts";
import { cpuPolicyOf, readMachine, sizeOf } from "./machine.ts";
import { amountsOf, conditionsOf, type HostResources } from "./node.ts";
import { chooseCheck } from "./probes/checks.ts";
import { probe } from "./probes/probe.ts";
import { planOrphan } from "./provider/adopt.ts";
import { assertCpuClass } from "./provider/cpu-class.ts";
import { statusOf } from "./provider/status.ts";

function podWith(more: {
  annotations?: Record<string, string>;
  resources?: object;
  nodeSelector?: object;
}): Pod {
  const { annotations = {}, resources = {}, nodeSelector = {} } = more;
  const containers = [
    { name: "agent", image: "demo", resources },
    { name: "other", image: "demo" },
  ];
  const metadata = { name: "p", namespace: "n", uid: "u", annotations };
  return { metadata, spec: { containers, nodeSelector } } as unknown as Pod;
}

test("a pod without a VM name is no machine, and bad values are named", () => {
  assert.throws(() => readMachine(podWith({})), /pod n\/p missing vm\.cocoonstack\.io\/name annotation/);
  const name = { "vm.cocoonstack.io/name": "vk-a" };
  const withMode = (mode: string) =>
    podWith({ annotations: { ...name, "cocoonset.cocoonstack.io/mode": mode } });
  assert.equal(readMachine(withMode("RUN")).mode, "run");
  assert.throws(() => readMachine(withMode("fly")), /"fly" is none of clone, run, static/);
  const port = podWith({ annotations: { ...name, "vm.cocoonstack.io/probe-port": "70000" } });
  assert.throws(() => readMachine(port), /"70000" is not a port/);
});

test("sizes come from requests, else limits; CPUs are rounded up", () => {
  const resources = { requests: { cpu: "1500m", memory: "0" }, limits: { cpu: "4", memory: "1Gi" } };
  assert.deepEqual(sizeOf(podWith({ resources }), "2Gi"), {
    cpus: 2,
    memoryBytes: 2 ** 30,
    storageBytes: 2 ** 31,
  });
  assert.deepEqual(sizeOf(podWith({}), ""), {});
  assert.deepEqual(cpuPolicyOf(podWith({ resources })), {
    weight: 59,
    quotaMicros: 400_000,
    periodMicros: 100_000,
  });
});

test("a machine that runs on what is left over is as large as it asks, and gives way", () => {
  for (const kind of ["batch", "mid"]) {
    const amounts = { [`kubernetes.io/${kind}-cpu`]: "1500", [`kubernetes.io/${kind}-memory`]: "2Gi" };
    const pod = podWith({ resources: { requests: amounts, limits: amounts } });
    assert.deepEqual(sizeOf(pod, ""), { cpus: 2, memoryBytes: 2 ** 31 }, kind);
    assert.deepEqual(cpuPolicyOf(pod), { weight: 1, quotaMicros: 150_000, periodMicros: 100_000 }, kind);
  }
  const limited = podWith({ resources: { limits: { "kubernetes.io/batch-cpu": "4k" } } });
  assert.deepEqual(sizeOf(limited, ""), { cpus: 4 });
});

test("arguments survive a shell", () => {
  assert.equal(shellWords(["a-b=1", "", "it's", "$x"]), `a-b=1 '' 'it'\\''s' '$x'`);
});

test("the last lines", () => {
  const text = Buffer.from("one\ntwo\nthree\n");
  const table: readonly (readonly [number | undefined, string])[] = [
    [undefined, "one\ntwo\nthree\n"],
    [0, ""],
    [1, "three\n"],
    [2, "two\nthree\n"],
    [9, "one\ntwo\nthree\n"],
  ];
  for (const [lines, wanted] of table) assert.equal(lastLines(text, lines).toString(), wanted);
  assert.equal(lastLines(Buffer.from("a\nb"), 1).toString(), "b");
});

test("the journal is asked for what was asked for", () => {
  const options: LogOptions = {
    tailLines: undefined,
    follow: true,
    limitBytes: undefined,
    previous: false,
    since: new Date(60_000),
    timestamps: true,
    signal: AbortSignal.timeout(1000),
  };
  const command = journalCommand(options).join(" ");
  assert.match(command, /--output=short-iso-precise --since=@60 --follow$/);
  assert.match(journalCommand({ ...options, since: undefined }).join(" "), /--lines=200/);
});

const host: HostResources = {
  cpus: 8,
  memoryBytes: 1000,
  availableMemoryBytes: 500,
  storageBytes: 2000,
  availableStorageBytes: 1500,
  hugepagesBytes: 0,
};
const settings = {
  name: "n",
  ip: "10.0.0.1",
  pool: "default",
  providerId: "",
  cpuClass: "",
  rootDirectory: "/",
  reservePercent: 20,
  pods: 256,
  cpu: undefined,
  memory: undefined,
  storage: undefined,
  hugepages: undefined,
};

test("allocatable leaves the reserve, in whole units", () => {
  const { capacity, allocatable } = amountsOf(host, settings);
  assert.deepEqual(capacity, { cpu: "8", memory: "1000", "ephemeral-storage": "2000", pods: "256" });
  assert.deepEqual(allocatable, { cpu: "6", memory: "800", "ephemeral-storage": "1200", pods: "256" });
  assert.equal(
    amountsOf(host, { ...settings, cpu: "3", storage: "1Ki" }).allocatable["ephemeral-storage"],
    "819",
  );
});

test("pressure is measured", () => {
  const of = (more: Partial<HostResources>) =>
    conditionsOf({ ...host, ...more })
      .filter((each) => each.status === "True")
      .map((each) => each.type);
  assert.deepEqual(of({}), ["Ready"]);
  assert.deepEqual(of({ availableMemoryBytes: 1, availableStorageBytes: 1 }), [
    "Ready",
    "DiskPressure",
    "MemoryPressure",
  ]);
});

test("which check is used", () => {
  const ping = () => Promise.resolve({ ok: true, message: "" });
  const routable = { ip: "10.0.0.2", routable: true, forwards: [] };
  const forwarded = { ...routable, routable: false };
  const vm = { guest: "unknown" as const };
  assert.equal(chooseCheck({ vm, address: routable, probePort: 80, ping }), "tcp");
  assert.equal(chooseCheck({ vm, address: routable, probePort: undefined, ping }), "ping");
  assert.equal(chooseCheck({ vm, address: routable, probePort: undefined, ping: undefined }), "address");
  assert.equal(chooseCheck({ vm, address: forwarded, probePort: undefined, ping }), "ssh");
  assert.equal(
    chooseCheck({ vm: { guest: "booting" }, address: forwarded, probePort: undefined, ping }),
    "agent",
  );
});

test("three failures, not one, make a ready machine not ready", async () => {
  const results = [false, true, false, false, true, false, false, false];
  const told: boolean[] = [];
  const stop = new AbortController();
  const times = { firstMs: 1, growth: 1, maxMs: 1, readyMs: 1, failures: 3 };
  await probe({
    times,
    signal: stop.signal,
    check: () => {
      const ok = results.shift();
      if (ok === undefined) stop.abort();
      return Promise.resolve({ ok: ok ?? false, message: "" });
    },
    onChange: ({ ok }) => Promise.resolve(void told.push(ok)),
  });
  assert.deepEqual(told, [false, true, false]);
});

test("VMs that no pod here claims", () => {
  const claim = { vmName: "vk-a", node: "b", lives: true, generation: 4, restoredFrom: "S1" };
  const lives = [claim];
  const comes = [{ ...claim, lives: false }];
  const running = { name: "vk-a", state: "running" as const, generation: 4, exactSnapshotId: undefined };
  assert.equal(planOrphan({ ...running, name: "mine" }, [], "destroy"), "nothing");
  assert.equal(planOrphan(running, [], "alert"), "alert");
  assert.equal(planOrphan(running, [], "keep"), "nothing");
  assert.equal(planOrphan(running, [], "destroy"), "destroy");
  assert.equal(planOrphan(running, comes, "destroy"), "alert", "what wakes elsewhere is not destroyed here");
  assert.equal(planOrphan(running, lives, "keep"), "freeze");
  const still = { ...running, state: "paused" as const, exactSnapshotId: "S1" };
  assert.equal(planOrphan(still, lives, "alert"), "release", "the other went on from exactly here");
  assert.equal(planOrphan({ ...still, exactSnapshotId: "S2" }, lives, "destroy"), "alert", "another state");
  assert.equal(planOrphan({ ...still, generation: 5 }, lives, "destroy"), "alert", "a newer generation");
  assert.equal(planOrphan({ ...still, exactSnapshotId: undefined }, lives, "destroy"), "alert");
});

test("another CPU class is refused", () => {
  const pod = podWith({ nodeSelector: { "cocoonstack.io/snapshot-cpu-class": "v4" } });
  assert.throws(() => assertCpuClass(pod, ""), /needs snapshot CPU class "v4", but this node has none/);
  assert.throws(() => assertCpuClass(pod, "v3"), /this node has "v3"/);
  assertCpuClass(pod, "v4");
  assertCpuClass(podWith({}), "");
});

test("a sleeping machine shows every container waiting", () => {
  const facts = { hostIp: "10.0.0.1", hibernatedPhase: "Running" as const };
  const status = statusOf(podWith({}), { kind: "asleep" }, facts);
  assert.equal(status.phase, "Running");
  assert.equal(status.podIP, undefined);
  assert.deepEqual(
    status.containerStatuses?.map((each) => [each.name, each.state?.waiting?.reason]),
    [
      ["agent", "Hibernated"],
      ["other", "Hibernated"],
    ],
  );
  const other = statusOf(podWith({}), { kind: "asleep" }, { ...facts, hibernatedPhase: "Pending" });
  assert.deepEqual([other.phase, other.containerStatuses], ["Pending", []]);
});
