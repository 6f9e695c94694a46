/** Network name spaces for a test: one with the bridge, one that plays the world outside. Nothing leaves them. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { signalProcess, tryIdentify } from "@cocoon/core";
import { killChild, runCommand, type CommandResult } from "@cocoon/testkit";

export interface TestNetwork extends AsyncDisposable {
  /** Where the bridge lives. */
  readonly netns: string;
  readonly outsideIp: string;
  /** The bridge's name space as the outside sees it. */
  readonly uplinkIp: string;
  /** Runs a command beside the bridge. */
  inside(...command: readonly string[]): Promise<CommandResult>;
  /** A server outside that tells each client which address it came from. */
  startEcho(port: number): Promise<AsyncDisposable>;
}

const script = (port: string) =>
  `require("node:net").createServer((socket) => socket.end(socket.remoteAddress + "\\n")).listen(${port}, "0.0.0.0", () => console.log("ready"))`;

export async function openTestNetwork(): Promise<TestNetwork> {
  const id = randomBytes(3).toString("hex");
  const netns = `cocoon-in-${id}`;
  const outside = `cocoon-out-${id}`;
  const ip = async (...args: readonly string[]) => {
    const done = await runCommand("ip", args);
    assert.equal(done.code, 0, `ip ${args.join(" ")}: ${done.stderr}`);
  };
  await ip("netns", "add", netns);
  await ip("netns", "add", outside);
  await ip(
    "link",
    "add",
    "uplink",
    "netns",
    netns,
    "type",
    "veth",
    "peer",
    "name",
    "world",
    "netns",
    outside,
  );
  for (const [space, device, address] of [
    [netns, "uplink", "198.51.100.1/24"],
    [outside, "world", "198.51.100.2/24"],
  ] as const) {
    await ip("-n", space, "link", "set", "lo", "up");
    await ip("-n", space, "address", "add", address, "dev", device);
    await ip("-n", space, "link", "set", device, "up");
  }
  return {
    netns,
    outsideIp: "198.51.100.2",
    uplinkIp: "198.51.100.1",
    inside: (...command) => runCommand("ip", ["netns", "exec", netns, ...command]),
    startEcho: async (port) => {
      const args = ["netns", "exec", outside, process.execPath, "-e", script(String(port))];
      const child = spawn("ip", args, { stdio: ["ignore", "pipe", "inherit"] });
      await once(child.stdout, "data");
      return {
        [Symbol.asyncDispose]: async () => {
          await killChild(child);
        },
      };
    },
    [Symbol.asyncDispose]: async () => {
      // A test that failed may not have come to its end.
      const { stdout } = await runCommand("ip", ["netns", "pids", netns]);
      for (const pid of stdout.split("\n").filter(Boolean)) {
        const identity = tryIdentify(Number(pid));
        if (identity) signalProcess(identity, "SIGKILL");
      }
      await ip("netns", "delete", netns);
      await ip("netns", "delete", outside);
    },
  };
}
