/** Sets come up, grow, shrink and go, on a real API server. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sharedControlPlane } from "@cocoon/testkit";
import { installCrds } from "../contract/install-crds.ts";
import { openWorld, buildSpec } from "./world.ts";

const cluster = await sharedControlPlane();
await installCrds(cluster);

test("main, sub-agents and toolboxes come up, and the status says so", async () => {
  await using world = await openWorld(cluster);
  const toolboxes = [
    { name: "shell", image: "tools:v1" },
    { name: "old", os: "windows", mode: "static", staticIP: "10.1.1.1", staticVMID: "q-1", vncPort: 5901 },
  ];
  await world.apply("atlas", buildSpec(world, { toolboxes }, { replicas: 2 }));
  const set = await world.reaches("atlas", (status) => assert.equal(status.phase, "Running"));
  assert.deepEqual(await world.podNames(), ["atlas-0", "atlas-1", "atlas-2", "atlas-old", "atlas-shell"]);
  const { status } = set;
  assert.equal(status?.readyAgents, 3);
  assert.equal(status?.readyToolboxes, 2);
  assert.equal(status?.subAgents, 2);
  assert.deepEqual(
    status?.agents?.map(({ slot, role, vmName, forkedFrom }) => ({ slot, role, vmName, forkedFrom })),
    [0, 1, 2].map((slot) => ({
      slot,
      role: slot === 0 ? "main" : "sub-agent",
      vmName: world.vmName(`atlas-${slot}`),
      forkedFrom: slot === 0 ? undefined : world.vmName("atlas-0"),
    })),
  );
  assert.equal(status?.toolboxes?.find(({ name }) => name === "old")?.connType, "vnc");
  const conditions = Object.fromEntries((status?.conditions ?? []).map((each) => [each.type, each.status]));
  assert.deepEqual(conditions, { Ready: "True", Progressing: "False", Degraded: "False" });
  const main = await world.pod("atlas-0");
  const fork = await world.pod("atlas-1");
  assert.equal(fork?.spec?.nodeName, main?.spec?.nodeName, "a fork runs beside its source");
  assert.deepEqual(world.kubelet.violations, []);
});
