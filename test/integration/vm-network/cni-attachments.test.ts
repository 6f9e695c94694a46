/** What the CNI network leaves on a host when plugins fail, hang or run out, when processes are killed, and when all is well. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { count, killChild, seededRandom, testSeed } from "@cocoon/testkit";
import { bridgeList, openCniHost, type CniHost } from "./cni-host.ts";

const worker = join(import.meta.dirname, "cni-attach-worker.ts");

interface Outcome {
  readonly failures: Readonly<Record<string, string>>;
  readonly addresses: Readonly<Record<string, string>>;
  readonly tookMs: number;
}

function describeJob(host: CniHost, job: Record<string, unknown>): string {
  return JSON.stringify({
    directory: join(host.directory, "net"),
    confDirectory: host.confDirectory,
    ...job,
  });
}

async function work(host: CniHost, job: Record<string, unknown>): Promise<Outcome> {
  return JSON.parse(await host.must(process.execPath, worker, describeJob(host, job))) as Outcome;
}

async function assertNothingLeft(host: CniHost): Promise<void> {
  assert.deepEqual(await host.listLeftovers(), []);
  assert.deepEqual(await host.listLeased(), []);
  assert.equal(await host.must("find", join(host.directory, "net"), "-name", "*.json"), "");
  assert.doesNotMatch(
    await host.must("nft", "list", "ruleset"),
    /10\.77\.0\.\d+ /,
    "no rule of a machine is left",
  );
}

function vmIds(length: number): string[] {
  return Array.from({ length }, (_each, index) => `VM${String(index).padStart(8, "0")}`);
}

test("many machines come and go, and nothing is left of them", async () => {
  await using host = await openCniHost();
  await host.writeList("10-machines.conflist", bridgeList(host));
  const ids = vmIds(count({ small: 12, full: 100 }));
  const { addresses, failures } = await work(host, { attach: ids });
  assert.deepEqual(failures, {});
  assert.equal(new Set(Object.values(addresses)).size, ids.length);
  assert.equal((await host.listLeased()).length, ids.length);
  assert.deepEqual((await work(host, { release: [...ids, ...ids.slice(0, 2)] })).failures, {});
  await assertNothingLeft(host);
});

test("a machine keeps its address from process to process, and gets another after the host restarted", async () => {
  await using host = await openCniHost();
  // Without portmap: its CHECK fails here although nothing is wrong.
  const { plugins, ...list } = bridgeList(host) as { plugins: { type: string }[] };
  await host.writeList("10-machines.conflist", { ...list, plugins: plugins.slice(0, 1) });
  const [id = ""] = vmIds(1);
  const first = (await work(host, { attach: [id] })).addresses[id];
  assert.equal((await work(host, { attach: [id] })).addresses[id], first);
  // What a restart of the host takes: the namespace with its interfaces, the bridge, and the plugins' rules.
  await host.must("ip", "netns", "delete", `cocoon-${id}`);
  await host.must("ip", "link", "delete", "cni0");
  await host.must("nft", "flush", "ruleset");
  const { addresses, failures } = await work(host, { attach: [id] });
  assert.deepEqual(failures, {});
  assert.match(addresses[id] ?? "", /^10\.77\.0\./);
  assert.deepEqual(await host.listLeased(), [addresses[id]], "the former address was given back");
  await work(host, { reconcile: [] });
  await assertNothingLeft(host);
});

test("whenever the process is killed, the next one leaves no address, namespace or interface behind", async () => {
  await using host = await openCniHost();
  await host.writeList("10-machines.conflist", bridgeList(host));
  const random = seededRandom(testSeed());
  for (let round = 0; round < count({ small: 3, full: 30 }); round += 1) {
    const [command, args] = host.enter(process.execPath, worker, describeJob(host, { churn: vmIds(2) }));
    const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
    await once(child.stdout, "data");
    await new Promise((resolve) => setTimeout(resolve, random() * 1_500));
    await killChild(child);
    await work(host, { reconcile: [] });
    await assertNothingLeft(host);
  }
});

test("a plugin that still runs when its caller was killed cannot undo what follows", async () => {
  await using host = await openCniHost();
  const [id = ""] = vmIds(1);
  const bin = await addPlugin(
    host,
    "slow",
    "touch $DIR/called; sleep 3; touch $DIR/late; exec /usr/lib/cni/bridge",
  );
  const { plugins, ...list } = bridgeList(host) as { plugins: Record<string, unknown>[] };
  await host.writeList("10-machines.conflist", { ...list, plugins: [{ ...plugins[0], type: "slow" }] });
  const job = { binDirectories: [bin, "/usr/lib/cni"] };
  const [command, args] = host.enter(process.execPath, worker, describeJob(host, { ...job, attach: [id] }));
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
  await host.must("sh", "-c", `until [ -e ${bin}/called ]; do sleep 0.05; done`);
  await killChild(child);
  await work(host, { ...job, reconcile: [] });
  await host.must("sh", "-c", `rm -f ${bin}/late`);
  await assertNothingLeft(host);
});

test("a full pool is an error that says so, and one release makes room", async () => {
  await using host = await openCniHost();
  await host.writeList("10-machines.conflist", bridgeList(host, { ranges: [[{ subnet: "10.77.0.0/29" }]] }));
  const ids = vmIds(6); // five addresses beside the gateway
  const { failures } = await work(host, { attach: ids });
  assert.deepEqual(Object.keys(failures), ids.slice(5));
  assert.match(
    failures[ids[5] ?? ""] ?? "",
    /CNI plugin bridge \(ADD, network "machines"\) failed: .*no IP addresses available/,
  );
  const after = await work(host, { release: ids.slice(0, 1) });
  assert.deepEqual(after.failures, {});
  assert.deepEqual((await work(host, { attach: ids.slice(5) })).failures, {});
  await work(host, { release: ids });
  await assertNothingLeft(host);
});

async function addPlugin(host: CniHost, name: string, script: string): Promise<string> {
  const bin = join(host.directory, "bin");
  await mkdir(bin, { recursive: true });
  await writeFile(join(bin, name), `#!/bin/sh\nDIR=${bin}\n${script}\n`, { mode: 0o755 });
  return bin;
}

test("a plugin that hangs is ended with all that it started; one that is broken is named", async () => {
  await using host = await openCniHost();
  const [one = "", two = ""] = vmIds(2);
  const bin = await addPlugin(
    host,
    "hang",
    '[ "$CNI_COMMAND" = ADD ] && { sleep 1000 & sleep 1000; }; exit 0',
  );
  await addPlugin(host, "broken", 'echo "no such thing" >&2; [ "$CNI_COMMAND" = ADD ] && exit 7; exit 0');
  const { plugins, ...list } = bridgeList(host) as { plugins: unknown[] };
  const job = { binDirectories: [bin, "/usr/lib/cni"], timeoutMs: 1_500 };
  await host.writeList("10-machines.conflist", { ...list, plugins: [plugins[0], { type: "hang" }] });
  const hung = await work(host, { ...job, attach: [one], release: [one] });
  assert.match(
    hung.failures[one] ?? "",
    /CNI plugin hang \(ADD, network "machines"\) did not end within 1500 ms/,
  );
  assert.ok(hung.tookMs < 20_000, `bounded, but took ${hung.tookMs} ms`);
  assert.notEqual(
    (
      await host.inside(
        "sh",
        "-c",
        "grep -lz CNI_CONTAINERID /proc/[0-9]*/environ 2>/dev/null | grep -v self",
      )
    ).code,
    0,
  );
  await host.writeList("10-machines.conflist", { ...list, plugins: [plugins[0], { type: "broken" }] });
  const broken = await work(host, { ...job, attach: [two], release: [two] });
  assert.match(broken.failures[two] ?? "", /CNI plugin broken \(ADD.* failed: no such thing/);
  await assertNothingLeft(host);
});
