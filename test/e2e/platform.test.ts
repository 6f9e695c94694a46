/** The whole platform on one machine, with a real machine in it, as a newcomer uses it. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { test } from "node:test";
import { markedProcesses } from "@cocoon/controlplane";
import { eventually } from "@cocoon/testkit";
import { newHome, npm } from "./home.ts";

/** QEMU processes that work below that directory. */
function machinesIn(home: string): string[] {
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid)) return false;
    try {
      return (
        readFileSync(`/proc/${pid}/comm`, "utf8").startsWith("qemu") &&
        readlinkSync(`/proc/${pid}/cwd`).startsWith(home)
      );
    } catch {
      return false; // it ended while we looked
    }
  });
}

test("up makes a set of machines; it is entered, sleeps, wakes, survives down and up, and is gone after a wipe", async () => {
  await using state = await newHome();
  const home = state.path;
  const kubectl = async (...args: string[]) => {
    const ran = await npm(home, "cocoonctl", "--", "kubectl", ...args);
    assert.equal(ran.code, 0, ran.stderr + ran.stdout);
    return ran.stdout;
  };
  const inGuest = (script: string) => kubectl("exec", "demo-0", "--", "sh", "-c", script);

  const first = await npm(home, "up");
  assert.equal(first.code, 0, first.stderr + first.stdout);
  assert.match(first.stdout, /exec -it demo-0/);
  assert.match((await npm(home, "status")).stdout, /vk-node-2 +ready/);
  assert.equal((await npm(home, "doctor")).code, 0);
  assert.match(await kubectl("get", "pod", "demo-0", "-o", "wide"), /1\/1 +Running/);

  await inGuest("echo kept > /root/note; sync; echo in-memory > /run/note");
  const suspend = (wanted: boolean) =>
    kubectl(
      "patch",
      "cocoonset",
      "demo",
      "--type",
      "merge",
      "-p",
      JSON.stringify({ spec: { suspend: wanted } }),
    );
  const phase = () => kubectl("get", "cocoonset", "demo", "-o", "jsonpath={.status.phase}");
  await suspend(true);
  await eventually(async () => assert.equal(await phase(), "Suspended"), { timeoutMs: 180_000 });
  assert.deepEqual(machinesIn(home), []);
  await suspend(false);
  await eventually(async () => assert.equal(await phase(), "Running"), { timeoutMs: 180_000 });
  assert.equal(await inGuest("cat /run/note /root/note"), "in-memory\nkept\n");

  const down = await npm(home, "down");
  assert.equal(down.code, 0, down.stderr);
  assert.deepEqual([markedProcesses(home), machinesIn(home)], [[], []]);
  const again = await npm(home, "up");
  assert.equal(again.code, 0, again.stderr + again.stdout);
  await eventually(async () => assert.equal(await inGuest("cat /root/note"), "kept\n"), {
    timeoutMs: 120_000,
  });

  assert.equal((await npm(home, "down", "--", "--wipe")).code, 0);
  assert.deepEqual([markedProcesses(home), machinesIn(home), existsSync(home)], [[], [], false]);
});
