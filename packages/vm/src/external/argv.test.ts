/** Command lines per vintage and operation, as the sheet of the command has them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { CloneSpec, RunSpec } from "../requests.ts";
import { cloneArguments, execArguments, logArguments, nicArguments, runArguments } from "./argv.ts";
import type { CloneSource } from "./argv.ts";
import { chooseVintage, vintages, type Vintage, type VintageName } from "./vintage.ts";

const vintage = (name: VintageName): Vintage => ({ name, version: "test", ...vintages[name] });
const policy = { weight: 40, quotaMicros: 200_000, periodMicros: 100_000 };
const sizes = { cpus: 2, memoryBytes: 1024, storageBytes: 2048 };

const run: RunSpec = {
  name: "vm1",
  image: "ghcr.io/x/y:24.04",
  ...sizes,
  network: "lan",
  backend: "firecracker",
  directIo: false,
  cpuPolicy: policy,
};

const clone: CloneSpec = {
  name: "vm2",
  snapshot: "base",
  ...sizes,
  network: "lan",
  directIo: false,
  restoreMode: "ondemand",
  cpuPolicy: policy,
};

const config = { cpus: 1, memoryBytes: 1, storageBytes: 1, os: "linux", labels: {}, image: "img" } as const;
const source: CloneSource = { hypervisor: "cloud-hypervisor", config, nics: 1 };

const golden: Readonly<
  Record<VintageName, Readonly<Record<"run" | "clone" | "windows" | "fcClone", string>>>
> = {
  base: {
    run: "vm run --output json --name vm1 --cpu 2 --memory 1024 --storage 2048 --network lan --fc --no-direct-io ghcr.io/x/y:24.04",
    windows: "vm run --output json --name vm1 --windows https://example.org/w.qcow2",
    clone:
      "vm clone --output json --name vm2 --cpu 2 --memory 1024 --storage 2048 --network lan --no-direct-io --pull --on-demand base",
    fcClone: "vm clone --output json --name vm2 --storage 2048 --network lan --no-direct-io --pull base",
  },
  newest: {
    run: "vm run --output json --name vm1 --cpu 2 --cpu-weight 40 --cpu-quota-us 200000 --cpu-period-us 100000 --memory 1024 --storage 2048 --network lan --fc --no-direct-io ghcr.io/x/y:24.04",
    windows: "vm run --output json --name vm1 --windows https://example.org/w.qcow2",
    clone:
      "vm clone --output json --name vm2 --network lan --no-direct-io --pull --restore-mode ondemand --cpu-weight 40 --cpu-quota-us 200000 --cpu-period-us 100000 base",
    fcClone:
      "vm clone --output json --name vm2 --network lan --no-direct-io --pull --cpu-weight 40 --cpu-quota-us 200000 --cpu-period-us 100000 base",
  },
  node: {
    run: "vm run --output json --name vm1 --cpu 2 --cpu-weight 40 --cpu-quota-us 200000 --cpu-period-us 100000 --memory 1024 --storage 2048 --network lan --fc --no-direct-io ghcr.io/x/y:24.04",
    windows: "vm run --output json --name vm1 --windows https://example.org/w.qcow2",
    clone:
      "vm clone --output json --name vm2 --cpu 2 --memory 1024 --storage 2048 --network lan --no-direct-io --pull --restore-mode ondemand --cpu-weight 40 --cpu-quota-us 200000 --cpu-period-us 100000 base",
    fcClone:
      "vm clone --output json --name vm2 --storage 2048 --network lan --no-direct-io --pull --cpu-weight 40 --cpu-quota-us 200000 --cpu-period-us 100000 base",
  },
};

for (const name of ["base", "newest", "node"] as const)
  test(`command lines of vintage ${name}`, () => {
    const it = vintage(name);
    const windows: RunSpec = { name: "vm1", image: "https://example.org/w.qcow2", os: "windows" };
    assert.deepEqual(
      {
        run: runArguments(run, it).join(" "),
        windows: runArguments(windows, it).join(" "),
        clone: cloneArguments(clone, source, it).join(" "),
        fcClone: cloneArguments(clone, { ...source, hypervisor: "firecracker" }, it).join(" "),
      },
      golden[name],
    );
  });

test("what the snapshot decides: base image, copied memory, a Windows saved without interfaces", () => {
  const { image: _image, ...imageless } = config;
  const bare = { name: "a", snapshot: "s" };
  const line = (spec: CloneSpec, from: CloneSource, name: VintageName) =>
    cloneArguments(spec, from, vintage(name)).slice(6).join(" ");
  assert.equal(line({ ...bare, restoreMode: "copy" }, { ...source, config: imageless }, "base"), "s");
  assert.equal(line({ ...bare, restoreMode: "copy" }, source, "newest"), "--pull --restore-mode copy s");
  const saved = { ...source, config: { ...config, os: "windows" as const }, nics: 0 };
  assert.equal(line(bare, saved, "newest"), "--pull --restore-mode mmap --nics 1 s");
});

test("verbs that a vintage lacks are not called", () => {
  const lines = (name: VintageName) => [
    logArguments("VM", vintage(name)),
    nicArguments("VM", 0, vintage(name)),
  ];
  assert.deepEqual(lines("base"), [undefined, undefined]);
  assert.deepEqual(lines("newest"), [
    ["vm", "logs", "VM"],
    ["vm", "net", "--nics", "0", "VM"],
  ]);
  assert.deepEqual(lines("node"), [["vm", "logs", "--console", "VM"], undefined]);
});

test("a program's environment is sorted, and input is announced", () => {
  const words = execArguments("VM", { argv: ["cat", "-"], env: { B: "2", A: "1" }, stdin: true });
  assert.equal(words.join(" "), "vm exec -i -e A=1 -e B=2 VM -- cat -");
});

const flagHelp = (flags: readonly string[]) => flags.map((flag) => `      ${flag} string   text\n`).join("");

test("the vintage is found by the command's own texts, and only flags of its help are sent", () => {
  const verbs = "Commands:\n  exec   run\n  logs   show\n  net    interfaces\n";
  const texts = { version: "Version: v0.5.7\n", vm: verbs, run: "" };
  const newest = chooseVintage({
    ...texts,
    clone: flagHelp(["--restore-mode", "--cpu-weight", "--network"]),
  });
  assert.equal(newest.name, "newest");
  assert.deepEqual(newest.clone, ["--network", "--restore-mode", "--cpu-weight"]);
  assert.deepEqual([...newest.verbs], ["exec", "logs", "net"]);
  const base = chooseVintage({
    version: "Version: v0.3.8\n",
    vm: "",
    run: "",
    clone: flagHelp(["--cpu", "--on-demand"]),
  });
  assert.deepEqual([base.name, base.version, base.clone], ["base", "v0.3.8", ["--cpu", "--on-demand"]]);
  const node = chooseVintage({
    ...texts,
    version: "Version: 1\nGolang version: none (Node.js v26)\n",
    clone: "",
  });
  assert.equal(node.name, "node");
});

test("no command line has a flag that its vintage lacks", () => {
  const names = fc.constantFrom<VintageName>("base", "newest", "node");
  const number = fc.option(fc.nat(), { nil: undefined });
  fc.assert(
    fc.property(names, number, number, (name, weight, storageBytes) => {
      const it = vintage(name);
      const spec = {
        ...clone,
        ...(weight === undefined ? {} : { cpuPolicy: { weight } }),
        ...(storageBytes === undefined ? {} : { storageBytes }),
      };
      const sent = cloneArguments(spec, source, it).filter((word) => word.startsWith("--"));
      const allowed = new Set(["--output", "--name", ...it.clone]);
      assert.deepEqual(
        sent.filter((flag) => !allowed.has(flag)),
        [],
      );
    }),
  );
});
