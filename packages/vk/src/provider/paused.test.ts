/** A machine that stands still until it is used, as a member of a warm pool does. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually } from "@cocoon/testkit";
import { openStage, stageVmName } from "../testing/controller-stage.ts";

test("it is paused once it is ready, and runs when it is called back, with its variables", async () => {
  await using stack = new AsyncDisposableStack();
  const { host, state, bring } = await openStage(stack);
  const read = (key: string) => state.pod.metadata.annotations?.[`vm.cocoonstack.io/${key}`];
  await bring("vm.cocoonstack.io/pause", "true");
  await eventually(() => {
    assert.equal(host.find(stageVmName).vm.state, "paused");
    assert.deepEqual([read("lifecycle-state"), read("paused")], ["ready", "true"]);
  });
  const { id } = host.find(stageVmName).vm;
  await bring("vm.cocoonstack.io/pause", "true");
  assert.equal(host.find(stageVmName).vm.state, "paused", "it stays so");
  await bring("vm.cocoonstack.io/env", '{"A":"b"}');
  assert.equal(host.find(stageVmName).vm.state, "paused", "variables alone do not call it back");
  await bring("vm.cocoonstack.io/pause", null);
  await eventually(() => {
    assert.equal(host.find(stageVmName).vm.state, "running");
    assert.equal(read("paused"), undefined);
    assert.equal(host.find(stageVmName).guest.read("/etc/profile.d/cocoon-env.sh"), "export A='b'\n");
  });
  assert.equal(host.find(stageVmName).vm.id, id, "the same VM");
});
