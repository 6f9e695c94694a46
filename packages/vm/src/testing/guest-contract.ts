/** Into the guest: programs, console, network, usage. */
import assert from "node:assert/strict";
import type { Duplex } from "node:stream";
import { it } from "node:test";
import { isFault } from "@cocoon/core";
import { eventually } from "@cocoon/testkit";
import type { VmRuntime } from "../runtime.ts";
import type { Bench } from "./contract-suite.ts";
import { readCounter, refuses, runIn } from "./harness.ts";

export function describeGuests(use: () => Bench): void {
  it("runs programs with their output, input, environment and exit code", async () => {
    const { runtime, signal, clone } = use();
    await using vm = await clone("programs");
    assert.deepEqual(await runIn(runtime, vm.id, { argv: ["cat"], stdin: "to and fro" }), {
      stdout: "to and fro",
      stderr: "",
      code: 0,
    });
    const failed = await runIn(runtime, vm.id, { argv: ["sh", "-c", "echo oops >&2; exit 7"] });
    assert.deepEqual([failed.code, failed.stdout, failed.stderr], [7, "", "oops\n"]);
    const told = await runIn(runtime, vm.id, {
      argv: ["sh", "-c", "echo $GREETING"],
      env: { GREETING: "hello world" },
    });
    assert.equal(told.stdout, "hello world\n");
    assert.notEqual(await codeOrFault(runtime, vm.id, ["no-such-program"]), 0);
    await refuses(runtime.exec(vm.id, { argv: [] }, { signal }), "invalid");
  });

  it("ends a program when asked", async () => {
    const { runtime, signal, clone } = use();
    await using vm = await clone("sleeping");
    await using sleeper = await runtime.exec(
      vm.id,
      { argv: ["sh", "-c", "echo here; exec sleep 1000"] },
      { signal },
    );
    await new Promise((resolve) => sleeper.stdout.once("data", resolve));
    sleeper.signal("TERM");
    assert.deepEqual(await sleeper.exited, { code: 143, signal: 15 });
  });

  it("runs programs on a terminal that can be resized", async (t) => {
    const { runtime, signal, clone, can } = use();
    if (!can.tty) return t.skip("this runtime has no terminals");
    await using vm = await clone("terminal");
    await using shell = await runtime.exec(
      vm.id,
      { argv: ["sh"], stdin: true, tty: { rows: 24, columns: 80 } },
      { signal },
    );
    let shown = "";
    shell.stdout.on("data", (piece: Buffer) => (shown += piece.toString("utf8")));
    shell.stdin.write("stty size\n");
    await eventually(() => assert.match(shown, /24 80/), { signal });
    shell.resize({ rows: 50, columns: 132 });
    shell.stdin.write("stty size\n");
    await eventually(() => assert.match(shown, /50 132/), { signal });
    shell.stdin.write("exit 3\n");
    assert.equal((await shell.exited).code, 3);
  });

  it("carries a large stream unharmed, both ways, beside others", async () => {
    const { runtime, clone } = use();
    await using vm = await clone("streams");
    const text = "0123456789abcdef".repeat(64 * 1024);
    const [echoed, counted] = await Promise.all([
      runIn(runtime, vm.id, { argv: ["cat"], stdin: text }),
      readCounter(runtime, vm.id),
    ]);
    assert.equal(echoed.stdout.length, text.length);
    assert.equal(echoed.stdout, text);
    assert.ok(counted > 0);
  });

  it("has an interactive console with a history", async () => {
    const { runtime, signal, clone } = use();
    await using vm = await clone("console");
    const console = await runtime.openConsole(vm.id, { signal });
    const second = await runtime.openConsole(vm.id, { signal });
    let [shown, alsoShown] = ["", ""];
    console.on("data", (piece: Buffer) => (shown += piece.toString("utf8")));
    second.on("data", (piece: Buffer) => (alsoShown += piece.toString("utf8")));
    await eventually(
      async () => {
        console.write("\recho $((6 * 7))-cocoon\r");
        await new Promise((resolve) => setTimeout(resolve, 300));
        assert.match(shown, /42-cocoon/);
      },
      { signal, timeoutMs: 60_000 },
    );
    await eventually(() => assert.match(alsoShown, /42-cocoon/), { signal });
    console.destroy();
    second.destroy();
    await eventually(
      async () => assert.match((await runtime.readConsole(vm.id, { signal })).toString("utf8"), /42-cocoon/),
      { signal },
    );
    assert.ok((await runtime.readConsole(vm.id, { signal, tailBytes: 10 })).length <= 10);
  });

  it("gives each VM an address of its own, at which its SSH server answers", async () => {
    const { runtime, signal, clone } = use();
    await using one = await clone("net-one");
    await using other = await clone("net-other");
    const [first, second] = [
      await runtime.address(one.id, { signal }),
      await runtime.address(other.id, { signal }),
    ];
    assert.ok(first && second);
    assert.notEqual(first.ip, second.ip);
    for (const vm of [one, other])
      await eventually(
        async () => assert.match(await banner(await runtime.dial(vm.id, 22, { signal })), /^SSH-2\.0-/),
        { signal, timeoutMs: 60_000 },
      );
  });

  it("counts what a VM uses", async () => {
    const { runtime, signal, clone } = use();
    await using vm = await clone("usage");
    const stats = await runtime.stats(vm.id, { signal });
    assert.ok(stats.cpu.usageNanos > 0);
    assert.ok(stats.memory.residentBytes > 0);
    assert.ok(stats.disk.apparentBytes > 0);
  });
}

/** A program that cannot be started is refused, or, where only its end can be seen, ends as in a shell. */
async function codeOrFault(
  runtime: VmRuntime,
  ref: string,
  argv: readonly string[],
): Promise<number | string> {
  try {
    return (await runIn(runtime, ref, { argv })).code;
  } catch (error) {
    assert.ok(isFault(error, "notFound"), String(error));
    return error.code;
  }
}

async function banner(stream: Duplex): Promise<string> {
  const late = setTimeout(() => stream.destroy(new Error("no banner within 10 s")), 10_000);
  try {
    for await (const piece of stream) return (piece as Buffer).toString("utf8");
    return "";
  } finally {
    clearTimeout(late);
    stream.destroy();
  }
}
