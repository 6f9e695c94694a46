/** Commands by SSH against a real SSH server in this process. */
import assert from "node:assert/strict";
import { connect, type AddressInfo } from "node:net";
import { PassThrough } from "node:stream";
import { test } from "node:test";
import type { CommandIo } from "@cocoon/kubelet";
import type { VmRuntime } from "@cocoon/vm";
import ssh2, { type Connection } from "ssh2";
import { execBySsh } from "./ssh.ts";

const { private: privateKey } = ssh2.utils.generateKeyPairSync("ecdsa", { bits: 256 });

interface Seen {
  command: string;
  readonly sizes: string[];
}

/** Lets one password in; echoes input, and ends as the command says. */
function serve(connection: Connection, seen: Seen): void {
  connection.on("error", () => undefined);
  connection.on("authentication", (attempt) => {
    if (attempt.method === "password" && attempt.password === "secret") attempt.accept();
    else attempt.reject(["password"]);
  });
  connection.on("session", (accept) => {
    const session = accept();
    session.on("pty", (accepted, _rejected, size) => {
      seen.sizes.push(`${size.cols}x${size.rows}`);
      accepted();
    });
    session.on("window-change", (accepted, _rejected, size) => {
      seen.sizes.push(`${size.cols}x${size.rows}`);
      accepted?.();
    });
    session.on("exec", (accepted, _rejected, { command }) => {
      seen.command = command;
      const channel = accepted();
      channel.on("data", (data: Buffer) => channel.write(data));
      channel.on("end", () => {
        channel.stderr.write("err");
        if (command.endsWith("killed")) channel.exit("KILL", false, "");
        else channel.exit(7);
        channel.end();
      });
    });
  });
}

interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly seen: Seen;
}

async function run(
  command: readonly string[],
  more: { tty?: boolean; password?: string } = {},
): Promise<Run> {
  const seen: Seen = { command: "", sizes: [] };
  const server = new ssh2.Server({ hostKeys: [privateKey] }, (connection) => serve(connection, seen));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const dial = () => Promise.resolve(connect(port, "127.0.0.1"));
  const runtime = { dial } as unknown as VmRuntime;
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  stdin.end("input");
  const sizes = async function* () {
    yield { width: 100, height: 30 };
  };
  const io: CommandIo = {
    tty: more.tty ?? false,
    stdin,
    stdout,
    stderr: more.tty ? undefined : stderr,
    resize: more.tty ? sizes() : undefined,
    signal: new AbortController().signal,
  };
  const ssh = { user: "root", password: more.password ?? "secret" };
  try {
    const code = await execBySsh({ runtime, vmId: "x", command, env: { A: "b c" }, ssh }, io);
    return { code, stdout: text(stdout), stderr: text(stderr), seen };
  } finally {
    server.close();
  }
}

function text(stream: PassThrough): string {
  return (stream.read() as Buffer | null)?.toString() ?? "";
}

test("input, output, errors, environment and exit code pass", async () => {
  const { code, stdout, stderr, seen } = await run(["cat", "it's"]);
  assert.deepEqual([code, stdout, stderr], [7, "input", "err"]);
  assert.equal(seen.command, "env 'A=b c' cat 'it'\\''s'");
});

test("a command that a signal ended has 128 and its number", async () => {
  assert.equal((await run(["killed"])).code, 137);
});

test("a terminal is asked for, and follows its size", async () => {
  const { seen } = await run(["cat"], { tty: true });
  assert.deepEqual(seen.sizes, ["80x24", "100x30"]);
});

test("a login that is refused says so", async () => {
  await assert.rejects(
    run(["cat"], { password: "wrong" }),
    /ssh to the guest: All configured authentication/,
  );
});
