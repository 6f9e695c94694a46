/** The small rules of vk-cocoon, as tables. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "@cocoon/core";
import type { LogOptions, Pod } from "@cocoon/kubelet";
import { vkProgram } from "./config.ts";
import { journalCommand, lastLines } from "./guest/logs.ts";
import { shellWords } from "./guest/shell-words.ts";
import { compareSize, computeGrowth, readCpuPolicy, readMachineSize } from "./machine-size.ts";
import { readPodMachine } from "./pod-machine.ts";
import {
  buildConditions,
  chooseNodeName,
  computeAmounts,
  formatMachines,
  isFrozen,
  type HostResources,
} from "./node.ts";
import { chooseCheck } from "./probes/checks.ts";
import { probe } from "./probes/probe.ts";
import { planOrphan } from "./provider/orphans.ts";
import { assertCpuClass } from "./provider/identity.ts";
import { buildStatus } from "./provider/status.ts";

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

test("a node has its host's name unless it is given another; one that Kubernetes refuses is named", () => {
  assert.equal(chooseNodeName(undefined, "Host-7.Lab"), "host-7.lab");
  assert.equal(chooseNodeName("pool-a", "host-7"), "pool-a");
  assert.throws(() => chooseNodeName(undefined, "my_host"), /"my_host" cannot be the name.*set VK_NODE_NAME/);
});

test("a pod without a VM name is no machine, and bad values are named", () => {
  assert.throws(() => readPodMachine(podWith({})), /pod n\/p missing vm\.cocoonstack\.io\/name annotation/);
  const name = { "vm.cocoonstack.io/name": "vk-a" };
  const withMode = (mode: string) =>
    podWith({ annotations: { ...name, "cocoonset.cocoonstack.io/mode": mode } });
  assert.equal(readPodMachine(withMode("RUN")).mode, "run");
  assert.throws(() => readPodMachine(withMode("fly")), /"fly" is none of clone, run, static/);
  const port = podWith({ annotations: { ...name, "vm.cocoonstack.io/probe-port": "70000" } });
  assert.throws(() => readPodMachine(port), /"70000" is not a port/);
});

test("sizes come from requests, else limits; CPUs are rounded up", () => {
  const resources = { requests: { cpu: "1500m", memory: "0" }, limits: { cpu: "4", memory: "1Gi" } };
  assert.deepEqual(readMachineSize(podWith({ resources }), "2Gi"), {
    cpus: 2,
    memoryBytes: 2 ** 30,
    storageBytes: 2 ** 31,
  });
  assert.deepEqual(readMachineSize(podWith({}), ""), {});
  assert.deepEqual(readCpuPolicy(podWith({ resources })), {
    weight: 59,
    quotaMicros: 400_000,
    periodMicros: 100_000,
  });
});

test("a machine that runs on what is left over is as large as it asks, and gives way", () => {
  for (const kind of ["batch", "mid"]) {
    const amounts = { [`kubernetes.io/${kind}-cpu`]: "1500", [`kubernetes.io/${kind}-memory`]: "2Gi" };
    const pod = podWith({ resources: { requests: amounts, limits: amounts } });
    assert.deepEqual(readMachineSize(pod, ""), { cpus: 2, memoryBytes: 2 ** 31 }, kind);
    assert.deepEqual(readCpuPolicy(pod), { weight: 1, quotaMicros: 150_000, periodMicros: 100_000 }, kind);
  }
  const limited = podWith({ resources: { limits: { "kubernetes.io/batch-cpu": "4k" } } });
  assert.deepEqual(readMachineSize(limited, ""), { cpus: 4 });
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
  const { capacity, allocatable } = computeAmounts(host, settings);
  assert.deepEqual(capacity, { cpu: "8", memory: "1000", "ephemeral-storage": "2000", pods: "256" });
  assert.deepEqual(allocatable, { cpu: "6", memory: "800", "ephemeral-storage": "1200", pods: "256" });
  assert.equal(
    computeAmounts(host, { ...settings, cpu: "3", storage: "1Ki" }).allocatable["ephemeral-storage"],
    "819",
  );
});

test("pressure is measured", () => {
  const of = (more: Partial<HostResources>) =>
    buildConditions({ ...host, ...more })
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
  const vm = { guest: "unknown" as const, config: { os: "linux" as const } };
  assert.equal(chooseCheck({ vm, address: routable, probePort: 80, ping }), "tcp");
  assert.equal(chooseCheck({ vm, address: routable, probePort: undefined, ping }), "ping");
  assert.equal(chooseCheck({ vm, address: routable, probePort: undefined, ping: undefined }), "address");
  assert.equal(chooseCheck({ vm, address: forwarded, probePort: undefined, ping }), "ssh");
  assert.equal(
    chooseCheck({ vm: { ...vm, guest: "booting" }, address: forwarded, probePort: undefined, ping }),
    "agent",
  );
  const macos = { ...vm, config: { os: "macos" as const } };
  assert.equal(chooseCheck({ vm: macos, address: routable, probePort: undefined, ping }), "ssh");
  assert.equal(chooseCheck({ vm: macos, address: routable, probePort: 22, ping }), "tcp");
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
  const status = buildStatus(podWith({}), { kind: "asleep" }, facts);
  assert.equal(status.phase, "Running");
  assert.equal(status.podIP, undefined);
  assert.deepEqual(
    status.containerStatuses?.map((each) => [each.name, each.state?.waiting?.reason]),
    [
      ["agent", "Hibernated"],
      ["other", "Hibernated"],
    ],
  );
  const other = buildStatus(podWith({}), { kind: "asleep" }, { ...facts, hibernatedPhase: "Pending" });
  assert.deepEqual([other.phase, other.containerStatuses], ["Pending", []]);
});

test("only sizes that the engine can change grow, and what differs is named", () => {
  const has = { cpus: 2, memoryBytes: 100, storageBytes: 100 };
  const wanted = { cpus: 4, memoryBytes: 50, storageBytes: 200 };
  assert.deepEqual(computeGrowth(wanted, has, ["storageBytes"]), { storageBytes: 200 });
  assert.deepEqual(computeGrowth(wanted, has, ["cpus", "memoryBytes"]), { cpus: 4 });
  assert.deepEqual(computeGrowth({}, has, ["cpus"]), {});
  assert.equal(compareSize({}, has), undefined);
  assert.equal(compareSize({ cpus: 2, storageBytes: 50 }, has), undefined);
  assert.match(
    compareSize(wanted, has) ?? "",
    /2 CPUs instead of 4, 100 bytes of memory instead of 50, 100 bytes of disk instead of 200/,
  );
});

test("all five readiness times come from the environment", () => {
  const env = {
    VK_PROBE_FIRST_MS: "200",
    VK_PROBE_GROWTH: "2",
    VK_PROBE_MAX_MS: "3000",
    VK_PROBE_READY_MS: "4000",
    VK_PROBE_FAILURES: "5",
  };
  const read = readConfig(vkProgram, { argv: [], env });
  assert.ok(read.kind === "config", JSON.stringify(read));
  const { probeFirstMs, probeGrowth, probeMaxMs, probeReadyMs, probeFailures } = read.config;
  assert.deepEqual(
    [probeFirstMs, probeGrowth, probeMaxMs, probeReadyMs, probeFailures],
    [200, 2, 3000, 4000, 5],
  );
});

test("a size that was not applied is a condition, and True once it was", () => {
  const live = {
    kind: "live",
    ip: "",
    ready: true,
    message: "",
    startedAt: "",
    restarts: 0,
    vmId: "V",
  } as const;
  const facts = { hostIp: "", hibernatedPhase: "Running" } as const;
  const findSize = (pod: Pod, size: string | undefined) =>
    buildStatus(pod, { ...live, size }, facts).conditions?.find(({ type }) => type.endsWith("SizeApplied"));
  const plain = podWith({});
  assert.equal(findSize(plain, undefined), undefined);
  const refused = findSize(plain, "2 CPUs instead of 4");
  assert.deepEqual([refused?.status, refused?.reason], ["False", "SnapshotSizeKept"]);
  const before = { ...plain, status: { conditions: refused ? [refused] : [] } };
  assert.equal(findSize(before, undefined)?.status, "True");
});

test("a node publishes the VMs it holds, frozen ones apart, but for those of other programs", () => {
  const vms = [
    { name: "vk-lab-b-0", state: "stopped" },
    { name: "vk-lab-a-0", state: "running" },
    { name: "vk-lab-frozen-0", state: "paused" },
    { name: "vk-lab-hibernating-0", state: "paused" },
    { name: "of-a-person", state: "running" },
  ] as const;
  const isClaimed = (name: string) => name === "vk-lab-hibernating-0";
  assert.equal(
    formatMachines(vms, (vm) => !isFrozen(vm, isClaimed)),
    "vk-lab-a-0,vk-lab-b-0,vk-lab-hibernating-0",
  );
  assert.equal(
    formatMachines(vms, (vm) => isFrozen(vm, isClaimed)),
    "vk-lab-frozen-0",
  );
});
