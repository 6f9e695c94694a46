/** Where `kubectl logs` comes from: agent, SSH, console; with a real SSH server in this process. */
import assert from "node:assert/strict";
import { connect, type AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { Fault, silentLogger } from "@cocoon/core";
import type { LogOptions } from "@cocoon/kubelet";
import type { VmRuntime } from "@cocoon/vm";
import ssh2 from "ssh2";
import { ConsoleTimes } from "./console-times.ts";
import { guestLogs } from "./logs.ts";

const { private: privateKey } = ssh2.utils.generateKeyPairSync("ecdsa", { bits: 256 });

interface SshGuest extends AsyncDisposable {
  readonly runtime: VmRuntime;
  readonly commands: string[];
}

/** A guest without agent whose SSH server ends the journal check with that code. */
async function startSshGuest(checkCode: number): Promise<SshGuest> {
  const commands: string[] = [];
  const server = new ssh2.Server({ hostKeys: [privateKey] }, (connection) => {
    connection.on("error", () => undefined);
    connection.on("authentication", (attempt) =>
      attempt.method === "password" ? attempt.accept() : attempt.reject(["password"]),
    );
    connection.on("session", (accept) => {
      accept().on("exec", (accepted, _rejected, { command }) => {
        commands.push(command);
        const channel = accepted();
        const isCheck = command.includes("command -v");
        if (!isCheck) channel.write("a line of the journal\n");
        channel.exit(isCheck ? checkCode : 0);
        channel.end();
      });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const runtime = {
    exec: () => Promise.reject(new Fault("notSupported", "no agent")),
    dial: () => Promise.resolve(connect(port, "127.0.0.1")),
    readConsole: () => Promise.resolve(Buffer.from("a line of the console\n")),
  } as unknown as VmRuntime;
  return {
    runtime,
    commands,
    [Symbol.asyncDispose]: () => new Promise((resolve) => void server.close(() => resolve())),
  };
}

async function read(
  runtime: VmRuntime,
  { signal, previous = false }: { readonly signal: AbortSignal; readonly previous?: boolean },
  password?: string,
): Promise<string> {
  const ssh = { user: "root", ...(password ? { password } : {}) };
  const target = { runtime, vmId: "x", console: false, times: new ConsoleTimes(), ssh, log: silentLogger };
  const options = { follow: false, previous, timestamps: false, tailLines: 5, signal } as LogOptions;
  return text(await guestLogs(target, options));
}

test("without an agent the journal comes by SSH", async ({ signal }) => {
  await using guest = await startSshGuest(0);
  assert.equal(await read(guest.runtime, { signal }, "secret"), "a line of the journal\n");
  assert.match(guest.commands.at(-1) ?? "", /^journalctl .*--lines=5/);
});

test("without a journal, and without an SSH login, the console is shown", async ({ signal }) => {
  await using guest = await startSshGuest(1);
  assert.equal(await read(guest.runtime, { signal }, "secret"), "a line of the console\n");
  assert.equal(guest.commands.length, 1);
  assert.equal(await read(guest.runtime, { signal }), "a line of the console\n");
  assert.equal(guest.commands.length, 1);
  const refused = { ...guest.runtime, dial: () => Promise.reject(new Fault("unavailable", "refused")) };
  assert.equal(await read(refused as VmRuntime, { signal }, "secret"), "a line of the console\n");
});

test("cocoonctl logs --console asks for the console, also where the guest has a journal", async ({
  signal,
}) => {
  await using guest = await startSshGuest(0);
  assert.equal(await read(guest.runtime, { signal, previous: true }, "secret"), "a line of the console\n");
  assert.deepEqual(guest.commands, []);
});
