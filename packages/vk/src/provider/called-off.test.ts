/** A hibernation that is called off between its push and the removal of the VM. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually } from "@cocoon/testkit";
import { openStage, stageVmName as vmName } from "../testing/controller-stage.ts";

test("the VM continues in place, and the snapshot that it no longer matches is dropped", async () => {
  await using stack = new AsyncDisposableStack();
  const { host, server, state, bring } = await openStage(stack);
  const want = (asleep: boolean) => bring("vm.cocoonstack.io/hibernate", asleep ? "true" : null);
  const hasSnapshot = () => server.repos.get(vmName)?.tags.has("hibernate") ?? false;
  const isRunning = () => {
    assert.equal(state.pod.metadata.annotations?.["vm.cocoonstack.io/lifecycle-state"], "ready");
    assert.equal(host.find(vmName).vm.state, "running");
  };
  await want(false);
  await eventually(isRunning);
  const { id } = host.find(vmName).vm;
  // The wake of this VM is complete before the hibernation begins.
  await want(false);
  state.before = "remove";
  await assert.rejects(want(true), /no answer/);
  assert.ok(hasSnapshot(), "pushed");
  await want(false);
  await eventually(() => {
    isRunning();
    assert.equal(hasSnapshot(), false, "the registry has no snapshot of a machine that runs");
  });
  assert.equal(host.find(vmName).vm.id, id, "the same VM");
});
