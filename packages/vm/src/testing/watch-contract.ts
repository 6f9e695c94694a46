/** Events. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { Bench } from "./contract-suite.ts";
import { EventLog, readCounter } from "./harness.ts";

export function describeWatch(use: () => Bench): void {
  it("tells what is, and then what happens", async () => {
    const { runtime, signal, clone, can } = use();
    await using vm = await clone("watched");
    await using log = new EventLog(runtime);
    await log.waitFor("synced");
    assert.deepEqual(
      log.events.flatMap((event) => (event.kind === "listed" ? [event.vm.id] : [])),
      [vm.id],
    );
    if (can.pause) {
      await runtime.pause(vm.id, { signal });
      await log.waitFor("paused", (event) => event.vm.id === vm.id);
      await runtime.resume(vm.id, { signal });
      await log.waitFor("started", (event) => event.vm.id === vm.id);
    }
    await using other = await clone("newcomer");
    await log.waitFor("added", (event) => event.vm.name === "newcomer");
    await log.waitFor("started", (event) => event.vm.id === other.id);
    await log.waitFor("ready", (event) => event.vm.id === other.id);
    const { address } = await log.waitFor("networkUp", (event) => event.vm.id === other.id);
    assert.equal(address.ip, (await runtime.address(other.id, { signal }))?.ip);
    await runtime.remove(other.id, { force: true, signal });
    const removed = await log.waitFor("removed");
    assert.equal(removed.vm.id, other.id);
  });

  it("tells at once when a VM dies, and why", async () => {
    const { runtime, harness, signal, clone } = use();
    await using vm = await clone("mortal");
    await readCounter(runtime, vm.id);
    await using log = new EventLog(runtime);
    await log.waitFor("synced");
    await harness.kill(await runtime.inspect(vm.id, { signal }));
    const exited = await log.waitFor("exited", (event) => event.vm.id === vm.id);
    assert.equal(exited.vm.state, "stopped");
    assert.notEqual(exited.exit.reason, "stopped");
  });

  it("tells when a guest powers itself off", async () => {
    const { runtime, signal, clone } = use();
    await using vm = await clone("suicidal");
    await using log = new EventLog(runtime);
    await log.waitFor("synced");
    await using _program = await runtime.exec(vm.id, { argv: ["poweroff"] }, { signal });
    const exited = await log.waitFor("exited", (event) => event.vm.id === vm.id, 120_000);
    assert.equal(exited.exit.reason, "guest");
  });

  it("sees what another process does", async () => {
    const { runtime, harness, signal, golden, owned } = use();
    await using other = await harness.reopen();
    await using log = new EventLog(runtime);
    await log.waitFor("synced");
    await using vm = owned(await other.clone({ name: "elsewhere", snapshot: golden }, { signal }));
    await log.waitFor("started", (event) => event.vm.id === vm.id);
    await other.remove(vm.id, { force: true, signal });
    await log.waitFor("removed", (event) => event.vm.id === vm.id);
  });
}
