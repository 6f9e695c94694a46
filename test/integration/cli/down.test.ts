/** `down --wipe` that failed half-way can be repeated. */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { openUserNetwork, openQemuRuntime } from "@cocoon/qemu";
import { openImageLibrary } from "@cocoon/images";
import { runCommand, temporaryDirectory, type CommandResult } from "@cocoon/testkit";

const main = join(import.meta.dirname, "../../../packages/cli/src/main.ts");

/** A state directory with what `up` leaves: the files of the control plane, and the store of a node. */
async function makeHome(home: string): Promise<void> {
  for (const name of ["pki", "etcd", "run", "logs"]) await mkdir(join(home, name), { recursive: true });
  for (const name of ["cluster.json", "pki/ca.crt", "etcd/db", "logs/etcd.log"])
    await writeFile(join(home, name), "{}");
  const rootDirectory = join(home, "parts", "node-1");
  await mkdir(rootDirectory, { recursive: true });
  const network = await openUserNetwork({ directory: join(rootDirectory, "net") });
  await using _runtime = await openQemuRuntime({
    rootDirectory,
    images: openImageLibrary({ directory: join(home, "parts", "images") }),
    networks: new Map([["user", network]]),
    path: process.env["PATH"] ?? "",
    recover: false,
    signal: AbortSignal.timeout(60_000),
  });
}

function wipe(home: string, around: readonly string[] = []): Promise<CommandResult> {
  const [command, ...args] = [...around, process.execPath, main, "down", "--wipe"];
  return runCommand(command ?? "", args, { env: { COCOON_HOME: home }, timeoutMs: 60_000 });
}

/** In namespaces of its own, where the directory is bound to itself: its content can be removed, it cannot. */
function hold(path: string): readonly string[] {
  const script = 'mount --bind "$0" "$0" && exec "$@"';
  return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, path];
}

for (const held of ["parts/node-1/qemu/vms", "."])
  test(`a wipe that could not remove ${held} says so, and the next one removes the rest`, async () => {
    await using directory = await temporaryDirectory();
    const home = join(directory.path, "home");
    await makeHome(home);
    const first = await wipe(home, hold(join(home, held)));
    assert.equal(first.code, 1, first.stdout + first.stderr);
    assert.match(first.stderr, /removed only in part; fix the cause and run the same command again/);
    assert.ok(!(await readdir(home)).includes("cluster.json"), "the first one got some way");
    const second = await wipe(home);
    assert.equal(second.code, 0, second.stdout + second.stderr);
    assert.equal(existsSync(home), false);
  });
