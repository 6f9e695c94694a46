/** Real guests under QEMU, through the API server: reached, put to sleep, woken; their memory goes on. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, sharedControlPlane, temporaryDirectory } from "@cocoon/testkit";
import { demoImageName } from "@cocoon/vm";
import { openQemuRuntimeIn } from "../vm/qemu-harness.ts";
import { machinePod, openWorld, runMachine, type World } from "./test-vk.ts";

const cluster = await sharedControlPlane();
const hibernate = "vm.cocoonstack.io/hibernate";
const timeoutMs = 240_000;

async function reaches(world: World, state: string): Promise<void> {
  await eventually(
    async () => {
      const { annotations = {} } = (await world.pod("demo"))?.metadata ?? {};
      const message = annotations["vm.cocoonstack.io/lifecycle-state-message"] ?? "";
      assert.equal(annotations["vm.cocoonstack.io/lifecycle-state"], state, message);
    },
    { timeoutMs, intervalMs: 200 },
  );
}

test("a guest's counter goes on after sleep and wake, and its kubelet's restart does not touch it", async () => {
  await using directory = await temporaryDirectory();
  await using world = await openWorld(cluster);
  const node = await world.newNode({
    runtime: () => openQemuRuntimeIn(directory.path, { signal: AbortSignal.timeout(600_000) }),
  });
  const vmName = `vk-${world.namespace.name}-demo`;
  const annotations = {
    ...runMachine(vmName),
    "cocoonset.cocoonstack.io/image": demoImageName,
    "cocoonset.cocoonstack.io/storage": "256Mi",
  };
  const pod = machinePod("demo", node.name, annotations) as { spec: { containers: object[] } };
  pod.spec.containers = [
    { name: "agent", image: demoImageName, resources: { requests: { cpu: "1", memory: "128Mi" } } },
  ];
  const inGuest = async (...command: string[]) => {
    const ran = await cluster.kubectl(["exec", "demo", "-n", world.namespace.name, "--", ...command]);
    assert.equal(ran.code, 0, ran.stderr);
    return ran.stdout;
  };
  await world.apply(pod);
  await reaches(world, "ready");
  const script =
    "(i=0; while :; do i=$((i+1)); echo $i > /run/n.new; mv /run/n.new /run/n; sleep 0.1; done) >/dev/null 2>&1 </dev/null &";
  await inGuest("sh", "-c", script);
  await eventually(async () => assert.match(await inGuest("cat", "/run/n"), /^\d+\n$/));
  const boot = await inGuest("cat", "/proc/sys/kernel/random/boot_id");

  await node.kill();
  await node.start();
  await reaches(world, "ready");
  assert.equal(await inGuest("cat", "/proc/sys/kernel/random/boot_id"), boot);
  const before = Number(await inGuest("cat", "/run/n"));

  await world.annotate("demo", `${hibernate}=true`);
  await reaches(world, "hibernated");
  await world.annotate("demo", `${hibernate}-`);
  await reaches(world, "ready");
  assert.equal(await inGuest("cat", "/proc/sys/kernel/random/boot_id"), boot);
  const after = Number(await inGuest("cat", "/run/n"));
  assert.ok(after >= before, `the counter went from ${before} to ${after}`);
  const failing = await cluster.kubectl([
    "exec",
    "demo",
    "-n",
    world.namespace.name,
    "--",
    "sh",
    "-c",
    "exit 3",
  ]);
  assert.equal(failing.code, 3);
  await cluster.kubectl(["delete", "pod", "demo", "-n", world.namespace.name, "--timeout=120s"]);
  assert.equal(await world.pod("demo"), undefined);
});
