/**
 * The real program with real guests, killed without warning between every two steps of falling asleep and waking:
 * the guest's memory goes on, it is never lost, and never two copies of it run.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { fileURLToPath } from "node:url";
import { eventually, fullTierOnly, sharedControlPlane, tier } from "@cocoon/testkit";
import { demoMachine, demoPod, reaches } from "./real-guest.ts";
import { openWorld } from "./test-vk.ts";
import { openVkHost, type VkHost } from "./vk-process.ts";

const hibernate = "vm.cocoonstack.io/hibernate";
const cluster = await sharedControlPlane();
const stack = new AsyncDisposableStack();
after(() => stack.disposeAsync());
const world = stack.use(await openWorld(cluster));
/** As `up` and our installs set it; machines then run before their memory and disks are on the node. */
const env = { COCOON_SNAPSHOT_FORMAT: "packed" };
const host = stack.use(await openVkHost({ cluster, registryUrl: world.server.url, token: world.token, env }));
const vmName = `vk-${world.namespace.name}-demo`;

const allSleepSteps = [
  "announce",
  "pushAhead",
  "save",
  "push",
  "record",
  "clearId",
  "remove",
  "seal",
  "settled",
];
const allWakeSteps = ["announce", "restore", "publish", "settled", "announceLocal", "dropTag", "clearDigest"];
const [sleepSteps, wakeSteps] = tier() === "full" ? [allSleepSteps, allWakeSteps] : [["remove"], ["restore"]];

async function inGuest(...command: string[]): Promise<string> {
  const ran = await cluster.kubectl(["exec", "demo", "-n", world.namespace.name, "--", ...command]);
  assert.equal(ran.code, 0, ran.stderr);
  return ran.stdout;
}

async function counter(): Promise<number> {
  return Number(await inGuest("cat", "/run/n"));
}

/** Never none, never two. */
async function assertNotLost(hosts: readonly VkHost[]): Promise<void> {
  const guests = (await Promise.all(hosts.map((each) => each.guests()))).flat();
  const asleep = await world.tagged(vmName, "hibernate");
  assert.ok(guests.length <= 1, guests.join());
  assert.ok(guests.length === 1 || asleep !== undefined, "the machine is lost");
}

const script =
  "(i=0; while :; do i=$((i+1)); echo $i > /run/n.new; mv /run/n.new /run/n; sleep 0.1; done) >/dev/null 2>&1 </dev/null &";

test("a guest counts on through every kill", async (context) => {
  await host.start();
  await world.apply(demoPod("demo", host.name, demoMachine(vmName)));
  await reaches(world, "demo", "ready");
  await inGuest("sh", "-c", script);
  await eventually(async () => assert.match(await inGuest("cat", "/run/n"), /^\d+\n$/));
  const boot = await inGuest("cat", "/proc/sys/kernel/random/boot_id");
  let counted = await counter();
  const rounds = Math.max(sleepSteps.length, wakeSteps.length);
  for (let round = 0; round < rounds; round += 1) {
    const sleepStep = sleepSteps[round];
    const wakeStep = wakeSteps[round];
    await context.test(`asleep past "${sleepStep ?? "-"}", awake past "${wakeStep ?? "-"}"`, async () => {
      const sleep = () => world.annotate("demo", `${hibernate}=true`);
      if (sleepStep === undefined) await sleep();
      else {
        await host.killBefore(sleepStep, sleep);
        await assertNotLost([host]);
        await host.start();
      }
      await reaches(world, "demo", "hibernated");
      assert.deepEqual(await host.guests(), []);
      await assertNotLost([host]);
      const wake = () => world.annotate("demo", `${hibernate}-`);
      if (wakeStep === undefined) await wake();
      else {
        await host.killBefore(wakeStep, wake);
        await assertNotLost([host]);
        await host.start();
      }
      await reaches(world, "demo", "ready");
      assert.equal(await inGuest("cat", "/proc/sys/kernel/random/boot_id"), boot, "it never booted again");
      const now = await counter();
      assert.ok(now >= counted, `the counter went back from ${counted} to ${now}`);
      counted = now;
      await eventually(async () => assert.equal(await world.tagged(vmName, "hibernate"), undefined), {
        timeoutMs: 60_000,
      });
    });
  }
});

async function moveToAnotherHost(): Promise<void> {
  const other = stack.use(
    await openVkHost({ cluster, registryUrl: world.server.url, token: world.token, env }),
  );
  await other.start();
  const counted = await counter();
  await world.annotate("demo", `${hibernate}=true`);
  await reaches(world, "demo", "hibernated");
  await cluster.kubectl(["delete", "pod", "demo", "-n", world.namespace.name]);
  await world.apply(demoPod("demo", other.name, demoMachine(vmName)));
  await reaches(world, "demo", "ready");
  assert.ok((await counter()) >= counted);
  assert.deepEqual(await host.guests(), []);
  assert.equal((await other.guests()).length, 1);
  await cluster.kubectl(["delete", "pod", "demo", "-n", world.namespace.name, "--timeout=120s"]);
  assert.equal(await world.pod("demo"), undefined);
  assert.deepEqual(await other.guests(), []);
}

/** Our own command stands in for the external one: it speaks the same language. */
async function byTheCommand(): Promise<void> {
  const command = fileURLToPath(import.meta.resolve("../../../packages/cocoon/src/main.ts"));
  const env = { VK_RUNTIME: "cocoon", VK_COCOON_BIN: command };
  const options = { cluster, registryUrl: world.server.url, token: world.token, env };
  const other = stack.use(await openVkHost(options));
  await other.start();
  const name = `vk-${world.namespace.name}-command`;
  await world.apply(demoPod("command", other.name, demoMachine(name)));
  await reaches(world, "command", "ready");
  const boot = async () => {
    const words = ["exec", "command", "-n", world.namespace.name, "--"];
    const ran = await cluster.kubectl([...words, "cat", "/proc/sys/kernel/random/boot_id"]);
    assert.equal(ran.code, 0, ran.stderr);
    return ran.stdout;
  };
  const before = await boot();
  await world.annotate("command", `${hibernate}=true`);
  await reaches(world, "command", "hibernated");
  assert.deepEqual(await other.guests(), []);
  await world.annotate("command", `${hibernate}-`);
  await reaches(world, "command", "ready");
  assert.equal(await boot(), before);
  await cluster.kubectl(["delete", "pod", "command", "-n", world.namespace.name, "--timeout=120s"]);
  assert.deepEqual(await other.guests(), []);
}

async function manyMachines(): Promise<void> {
  const other = stack.use(await openVkHost({ cluster, registryUrl: world.server.url, token: world.token }));
  await other.start();
  const names = Array.from({ length: 20 }, (_each, index) => `m${index}`);
  const formatVmName = (name: string) => `vk-${world.namespace.name}-${name}`;
  for (const name of names) {
    // One boots; the others go on from where it is, which is quicker.
    const source = name === "m0" ? {} : { "vm.cocoonstack.io/fork-from": formatVmName("m0") };
    const policy = { "cocoonset.cocoonstack.io/snapshot-policy": "never" };
    await world.apply(
      demoPod(name, other.name, { ...demoMachine(formatVmName(name)), ...policy, ...source }),
    );
    if (name === "m0") await reaches(world, name, "ready");
  }
  for (const name of names) await reaches(world, name, "ready");
  const before = await other.guestPids();
  assert.equal(before.length, names.length);
  await other.kill();
  assert.deepEqual(await other.guestPids(), before, "the VMs do not care");
  await other.start();
  const settled = (text: string) => (text.match(/"msg":"machine adopted"/g) ?? []).length;
  await eventually(async () => assert.ok(settled(await other.log()) >= names.length), { timeoutMs: 120_000 });
  assert.deepEqual(await other.guestPids(), before);
  for (const name of names) {
    const pod = await world.pod(name);
    assert.equal(pod?.metadata.annotations["vm.cocoonstack.io/lifecycle-state"], "ready");
    assert.equal(pod?.status.containerStatuses?.[0]?.restartCount, 0);
  }
  const inNamespace = ["-n", world.namespace.name];
  const ran = await cluster.kubectl(["exec", "m19", ...inNamespace, "--", "hostname"]);
  assert.equal(ran.stdout.trim(), formatVmName("m19"));
  await cluster.kubectl(["delete", "pod", ...names, ...inNamespace, "--timeout=240s"]);
  assert.deepEqual(await other.guestPids(), []);
}

const slow = fullTierOnly("many real guests");
test("twenty machines outlive their kubelet and are adopted by the next", slow, manyMachines);
test("the same machines by an external cocoon command", slow, byTheCommand);
test("asleep on one host, awake on another with a store of its own", slow, moveToAnotherHost);
