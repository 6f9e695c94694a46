/** A running guest takes another identity when its agent gets one, and keeps its own otherwise. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { before, test } from "node:test";
import { eventually, runCommand } from "@cocoon/testkit";
import { demoImageName } from "@cocoon/images";
import type { BootableImage } from "@cocoon/vm";
import { bootGuest, runIn, testLibrary } from "./boot-guest.ts";

const library = testLibrary();
const signal = AbortSignal.timeout(600_000);
const options = { signal };
let image: BootableImage;

before(async () => {
  await library.pull(demoImageName, options);
  image = await library.resolve(demoImageName, options);
});

const identity = (changed: object = {}) =>
  ({
    t: "identity",
    epoch: "epoch-1",
    hostname: "somebody-else",
    machineId: "0123456789abcdef0123456789abcdef",
    instanceId: "NEWINSTANCE",
    wallClockMs: Date.UTC(2031, 4, 6),
    entropy: randomBytes(64).toString("base64"),
    nics: ["02:00:00:00:00:77 10.0.2.15/24 10.0.2.2 10.0.2.3"],
    ...changed,
  }) as const;

test("name, ids, clock, card and SSH key change together, once per epoch", async () => {
  const netdev = "user,restrict=on,hostfwd=tcp:127.77.1.1:20022-:22";
  await using guest = await bootGuest({ library, image, signal, netdev });
  await using agent = await guest.openAgent();
  const run = async (script: string) =>
    (await runIn(agent, { argv: ["sh", "-c", script] }, signal)).stdout.trim();
  const scan = () =>
    eventually(
      async () => {
        const { stdout } = await runCommand("ssh-keyscan", [
          "-T",
          "20",
          "-p",
          "20022",
          "-t",
          "ed25519",
          "127.77.1.1",
        ]);
        return /ssh-ed25519 (\S+)/.exec(stdout)?.[1] ?? assert.fail("no host key");
      },
      { timeoutMs: 120_000 },
    );
  const keyBefore = await scan();
  assert.equal(await scan(), keyBefore, "the key is the machine's, not the connection's");
  const machineBefore = await run("cat /etc/machine-id");

  await agent.request(identity(), options);
  assert.equal(await run("hostname; cat /etc/hostname"), "somebody-else\nsomebody-else");
  assert.match(await run("cat /etc/hosts"), /127\.0\.1\.1\tsomebody-else # cocoon/);
  assert.doesNotMatch(await run("cat /etc/hosts"), /guest-one/);
  assert.equal(await run("cat /etc/machine-id"), "0123456789abcdef0123456789abcdef");
  assert.notEqual(machineBefore, "0123456789abcdef0123456789abcdef");
  assert.match(await run("date -u +%Y-%m-%d"), /^2031-05-06$/);
  assert.match(await run("cat /sys/class/net/eth0/address"), /02:00:00:00:00:77/);
  assert.match(await run("ip route"), /default via 10\.0\.2\.2/);
  const keyAfter = await scan(); // the network answers at once under the new address
  assert.notEqual(keyAfter, keyBefore);

  // The same epoch again is nothing new, whatever it says.
  await agent.request(identity({ hostname: "third" }), options);
  assert.equal(await run("hostname"), "somebody-else");
  // Another one that leaves facts alone leaves them.
  const untouched = {
    epoch: "epoch-2",
    hostname: "",
    machineId: "",
    instanceId: "",
    wallClockMs: 0,
    entropy: "",
    nics: [],
  };
  await agent.request(identity(untouched), options);
  assert.equal(await run("hostname"), "somebody-else");
  assert.equal(await scan(), keyAfter);
});

test("an agent that dies is started again and still knows the epoch", async () => {
  await using guest = await bootGuest({ library, image, signal });
  {
    await using agent = await guest.openAgent(0);
    await agent.request(identity({ epoch: "kept", nics: [] }), options);
    await agent.exec(
      { argv: ["sh", "-c", "kill -9 $(pidof cocoon-guest | tr ' ' '\\n' | grep -v '^1$')"] },
      options,
    );
  }
  await eventually(async () => assert.match(await guest.console(), /agent was ended by signal 9/), {
    timeoutMs: 60_000,
  });
  await using agent = await guest.openAgent(1);
  const pong = await agent.request({ t: "ping" }, options);
  assert.equal(pong.t === "pong" && pong.epoch, "kept");
});

test("two ports serve two hosts at once", async () => {
  await using guest = await bootGuest({ library, image, signal });
  await using one = await guest.openAgent(0);
  await using two = await guest.openAgent(1);
  await using slow = await one.exec({ argv: ["sleep", "1000"] }, options);
  assert.equal((await runIn(two, { argv: ["echo", "two"] }, signal)).stdout, "two\n");
  slow.signal("KILL");
  assert.equal((await slow.exited).code, 137);
});

test("the guest's own counters are told", async () => {
  await using guest = await bootGuest({ library, image, signal });
  await using agent = await guest.openAgent();
  const stats = await agent.request({ t: "stats" }, options);
  assert.ok(stats.t === "stats");
  assert.ok(
    stats.memoryTotalBytes > 150e6 && stats.memoryTotalBytes < 256 * 2 ** 20,
    String(stats.memoryTotalBytes),
  );
  assert.ok(stats.memoryAvailableBytes > 50e6 && stats.memoryAvailableBytes < stats.memoryTotalBytes);
});

test("a guest restarts when asked to", async () => {
  await using guest = await bootGuest({ library, image, signal });
  {
    await using agent = await guest.openAgent();
    await agent.request({ t: "shutdown", mode: "reboot" }, options);
  }
  await eventually(async () => assert.equal((await guest.console()).split("guest-one is up").length, 3), {
    timeoutMs: 120_000,
  });
  assert.equal((await guest.run(["hostname"])).stdout, "guest-one\n");
});
