/** The commands of `epoch` as a user types them, against a running server. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chmod, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import { listSourceFiles } from "@cocoon/oci";
import { assertMachine, readMachine, makeMachine, testEnvelope } from "@cocoon/oci/testing";
import { startRegistry } from "@cocoon/registry";
import { runClient } from "@cocoon/registry/cli";
import { seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";

class Collected extends Writable {
  readonly #pieces: Buffer[] = [];

  override _write(piece: Buffer, _encoding: string, done: () => void): void {
    this.#pieces.push(piece);
    done();
  }

  bytes(): Buffer {
    return Buffer.concat(this.#pieces);
  }
}

const main = join(import.meta.dirname, "../../../packages/registry/src/main.ts");

interface Ran {
  readonly code: number;
  readonly stdout: Buffer;
  readonly stderr: string;
}

interface World extends AsyncDisposable {
  readonly path: string;
  /** A machine's directory with its envelope. */
  readonly vm: string;
  readonly url: string;
  readonly server: { readonly url: string; readonly token: string };
  readonly epoch: (
    args: readonly string[],
    options?: { input?: Buffer; env?: Record<string, string> },
  ) => Promise<Ran>;
}

async function openWorld(): Promise<World> {
  const stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const server = stack.use(
    await startRegistry({ storage: { kind: "filesystem", root: join(path, "registry") } }),
  );
  const token = await server.createToken({
    name: "admin",
    scopes: ["admin", "repository:**:pull,push,delete", "registry:catalog:*"],
  });
  const vm = join(path, "vm");
  await makeMachine(vm, seededRandom(testSeed()), 3 << 20);
  await writeFile(join(vm, "snapshot.json"), JSON.stringify(testEnvelope));
  return {
    path,
    vm,
    url: server.url,
    epoch: async (args, { input, env } = {}) => {
      const streams = {
        stdin: Readable.from(input ? [input] : []),
        stdout: new Collected(),
        stderr: new Collected(),
      };
      const variables = {
        EPOCH_SERVER: server.url,
        EPOCH_REGISTRY_TOKEN: token,
        DOCKER_CONFIG: path,
        ...env,
      };
      const signal = AbortSignal.timeout(120_000);
      const code = await runClient(args, { env: variables, streams, signal });
      return { code, stdout: streams.stdout.bytes(), stderr: streams.stderr.bytes().toString() };
    },
    server: { url: server.url, token },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

const text = (ran: Ran): string => ran.stdout.toString();
const ok = (ran: Ran): Ran => {
  assert.equal(ran.code, 0, ran.stderr);
  return ran;
};

describe("epoch", () => {
  it("pushes, lists, inspects, tags, pulls, verifies and removes", async () => {
    await using world = await openWorld();
    const { epoch, vm } = world;
    assert.equal(ok(await epoch(["ls"])).stderr, "No repositories in registry\n");
    for (const format of ["v1", "v2", "packed"]) {
      const pushed = ok(
        await epoch([
          "push",
          "team/vm",
          "-t",
          format,
          "--from",
          vm,
          "--format",
          format,
          "--base-image",
          "ubuntu:24.04",
        ]),
      );
      assert.match(pushed.stderr, new RegExp(`^Pushed team/vm:${format} \\(${format}, .* sent`));
    }
    assert.equal(text(ok(await epoch(["ls"]))), "team/vm\n");
    assert.equal(text(ok(await epoch(["list", "team/vm"]))), "team/vm:packed\nteam/vm:v1\nteam/vm:v2\n");
    const shown = ok(await epoch(["inspect", "team/vm:v1"]));
    assert.match(shown.stderr, /is a snapshot/);
    assert.equal(
      (JSON.parse(text(shown)) as { artifactType: string }).artifactType,
      "application/vnd.cocoonstack.snapshot.v1+json",
    );
    assert.equal(
      text(ok(await epoch(["tag", "team/vm:packed", "team/vm:latest"]))),
      "Tagged team/vm:packed -> team/vm:latest\n",
    );
    for (const tag of ["v1", "v2", "latest"]) {
      const directory = join(world.path, `back-${tag}`);
      ok(await epoch(["pull", `team/vm:${tag}`, "--to", directory, "--name", "mine"]));
      await assertMachine(directory, await readMachine(vm));
      const envelope = JSON.parse(
        await readFile(join(directory, "snapshot.json"), "utf8"),
      ) as typeof testEnvelope;
      assert.equal(envelope.config.name, "mine");
    }
    assert.match(text(ok(await epoch(["verify", "team/vm"]))), /complete and undamaged/);
    assert.equal(text(ok(await epoch(["rm", "team/vm:v1"]))), "Removed team/vm:v1\n");
    assert.equal(text(ok(await epoch(["rm", "team/vm:v1"]))), "team/vm:v1 was not there\n");
    assert.equal(text(ok(await epoch(["ls", "team/vm"]))), "team/vm:latest\nteam/vm:packed\nteam/vm:v2\n");
  });

  it("is a program", async () => {
    await using world = await openWorld();
    const env = { ...process.env, EPOCH_SERVER: world.url, EPOCH_REGISTRY_TOKEN: world.server.token };
    const run = promisify(execFile);
    const pushed = await run(process.execPath, [main, "push", "vm", "--from", world.vm], { env });
    assert.match(pushed.stderr, /^Pushed vm:latest/);
    assert.equal((await run(process.execPath, [main, "ls", "vm"], { env })).stdout, "vm:latest\n");
    await assert.rejects(run(process.execPath, [main, "pull", "nothing"], { env }), { code: 1 });
  });

  it("speaks JSON", async () => {
    await using world = await openWorld();
    const { epoch, vm } = world;
    const json = async (...args: string[]): Promise<Record<string, unknown>> =>
      JSON.parse(text(ok(await epoch(["--json", ...args])))) as Record<string, unknown>;
    const pushed = await json("push", "vm", "--from", vm);
    assert.deepEqual([pushed["reference"], pushed["format"]], ["vm:latest", "v1"]);
    assert.deepEqual(await json("ls"), ["vm"]);
    assert.deepEqual(await json("ls", "vm"), ["latest"]);
    const inspected = await json("inspect", "vm");
    assert.deepEqual([inspected["kind"], inspected["digest"]], ["snapshot", pushed["digest"]]);
    assert.equal((inspected["config"] as { snapshotId: string }).snapshotId, "ABCDEFGH");
    const directory = join(world.path, "back");
    const pulled = await json("pull", `vm@${String(pushed["digest"])}`, "--to", directory);
    assert.deepEqual([pulled["digest"], pulled["directory"]], [pushed["digest"], directory]);
    assert.deepEqual(await json("rm", "vm"), { reference: "vm:latest", existed: true });
    assert.equal(typeof (await json("gc", "--lease", "0s", "--untagged", "0s"))["blobs"], "number");
  });

  it("carries archives in and out", async () => {
    await using world = await openWorld();
    const { epoch, vm } = world;
    ok(await epoch(["push", "vm", "--from", vm, "--format", "packed"]));
    const file = join(world.path, "vm.tar.gz");
    ok(await epoch(["export", "vm", "-o", file, "--gzip", "--name", "archived"]));
    assert.equal((await readFile(file)).readUInt16BE(0), 0x1f8b);
    ok(await epoch(["import", file, "copies/one", "--format", "v2"]));
    const archive = ok(await epoch(["export", "copies/one"])).stdout;
    ok(await epoch(["import", "-", "copies/two:t"], { input: archive }));
    const directory = join(world.path, "back");
    ok(await epoch(["pull", "copies/two:t", "--to", directory]));
    await assertMachine(directory, await readMachine(vm));
  });

  it("moves snapshots and images through the local runtime", async () => {
    await using world = await openWorld();
    const { epoch, vm } = world;
    const seed = ok(await epoch(["push", "seed", "--from", vm]));
    assert.equal(seed.code, 0);
    await writeFile(join(world.path, "seed.tar"), ok(await epoch(["export", "seed"])).stdout);
    const runtime = join(world.path, "cocoon");
    await mkdir(join(world.path, "said"));
    const script = `#!/bin/sh
echo "$@" >> ${world.path}/said/args
case "$1 $2" in
  "snapshot export") [ "$3" = broken ] && { echo "no such snapshot" >&2; exit 1; }; cat ${world.path}/seed.tar ;;
  "snapshot import"|"image import") cat > ${world.path}/said/input ;;
esac
`;
    await writeFile(runtime, script);
    await chmod(runtime, 0o755);
    const env = { EPOCH_COCOON_BINARY: runtime };
    ok(await epoch(["push", "vk-ns-demo-0", "-t", "hibernate"], { env }));
    ok(
      await epoch(["pull", "vk-ns-demo-0:hibernate", "--name", "local", "--description", "woken up"], {
        env,
      }),
    );
    ok(await epoch(["import", join(world.path, "said", "input"), "again"]));
    const directory = join(world.path, "back");
    ok(await epoch(["pull", "again", "--to", directory]));
    await assertMachine(directory, await readMachine(vm));
    const disk = join(world.path, "win.qcow2");
    await writeFile(disk, Buffer.concat([Buffer.from("QFI\u00fb", "latin1"), Buffer.alloc(3 << 20, "disk")]));
    ok(await epoch(["push", "images/win", "--disk", disk, "--part-mib", "1"]));
    assert.ok(ok(await epoch(["get", "images/win"])).stdout.equals(await readFile(disk)));
    ok(await epoch(["pull", "images/win"], { env }));
    assert.ok((await readFile(join(world.path, "said", "input"))).equals(await readFile(disk)));
    assert.deepEqual((await readFile(join(world.path, "said", "args"), "utf8")).trim().split("\n"), [
      "snapshot export vk-ns-demo-0 -o -",
      "snapshot import --name local --description woken up",
      "image import images/win",
    ]);
    const broken = await epoch(["push", "broken"], { env });
    assert.deepEqual([broken.code, /no such snapshot/.test(broken.stderr)], [1, true]);
    const missing = await epoch(["push", "x"], { env: { EPOCH_COCOON_BINARY: "/nonexistent/cocoon" } });
    assert.match(missing.stderr, /EPOCH_COCOON_BINARY/);
    assert.deepEqual(
      (await readdir(world.path)).filter((name) => name.startsWith("epoch-")),
      [],
    );
  });

  it("makes, lists and removes tokens, and they work", async () => {
    await using world = await openWorld();
    const { epoch, vm } = world;
    const made = ok(
      await epoch(["token", "create", "ci", "--scope", "repository:ci/*:pull,push", "--expires", "1h"]),
    );
    const token = text(made).trim();
    assert.match(token, /^[0-9A-Za-z_-]{20,}$/);
    const env = { EPOCH_REGISTRY_TOKEN: token };
    ok(await epoch(["push", "ci/vm", "--from", vm], { env }));
    const denied = await epoch(["push", "other/vm", "--from", vm], { env });
    assert.equal(denied.code, 1);
    assert.ok(!denied.stderr.includes(token), "the token is not shown");
    const list = text(ok(await epoch(["token", "ls"])));
    assert.match(list, /^ID +NAME +SCOPES/);
    const id = /^(\d+) +ci /m.exec(list)?.[1] ?? "";
    ok(await epoch(["token", "rm", id]));
    assert.equal((await epoch(["pull", "ci/vm", "--to", join(world.path, "x")], { env })).code, 1);
    assert.equal((await epoch(["token", "rm", "ci"])).code, 2);
  });

  it("signs in with the docker configuration when there is no token", async () => {
    await using world = await openWorld();
    const { epoch, vm } = world;
    const token = text(
      ok(await epoch(["token", "create", "someone", "--scope", "repository:**:pull,push"])),
    ).trim();
    const auth = Buffer.from(`someone:${token}`).toString("base64");
    await writeFile(
      join(world.path, "config.json"),
      JSON.stringify({ auths: { [new URL(world.url).host]: { auth } } }),
    );
    const env = { EPOCH_REGISTRY_TOKEN: "", EPOCH_SERVER: "http://127.0.0.1:1" };
    const name = `${new URL(world.url).host}/team/vm:t`;
    const pushed = ok(await epoch(["push", name, "--from", vm], { env }));
    assert.match(pushed.stderr, /\(v2, /, "a plain registry gets version 2");
    ok(await epoch(["pull", name, "--to", join(world.path, "back")], { env }));
    await assertMachine(join(world.path, "back"), await readMachine(vm));
  });

  it("says what is wrong and exits accordingly", async () => {
    await using world = await openWorld();
    const { epoch, vm } = world;
    const cases: readonly [readonly string[], number, RegExp][] = [
      [["pull", "Not A Ref", "--to", "x"], 2, /not a reference/],
      [["pull", "nothing", "--to", join(world.path, "x")], 1, /404|not found|unknown/i],
      [["push", "vm", "--from", join(world.path, "nowhere")], 1, /no such file/i],
      [["push", "vm", "--from", vm, "--format", "v9"], 2, /v1, v2, packed/],
      [["tag", "a:1", "b:2"], 2, /inside one repository/],
      [["--server", "http://127.0.0.1:1", "ls"], 1, /ECONNREFUSED/],
      [["import", main, "vm"], 1, /invalid snapshot archive: not a tar archive/],
    ];
    for (const [args, code, message] of cases) {
      const ran = await epoch(args);
      assert.equal(ran.code, code, `${args.join(" ")}: ${ran.stderr}`);
      assert.match(ran.stderr, message);
      assert.equal(text(ran), "");
    }
    assert.equal((await listSourceFiles(vm)).length, 4);
  });
});
