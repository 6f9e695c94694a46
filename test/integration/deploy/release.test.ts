/** What `npm run build` makes: every bundle starts, and so does the executable, without Node and without this repository. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { mkdir, rename, writeFile } from "node:fs/promises";
import { arch } from "node:os";
import { dirname, join } from "node:path";
import { after, before, describe, test } from "node:test";
import { reservePort } from "@cocoon/controlplane";
import { startProgram } from "@cocoon/core";
import {
  count,
  eventually,
  runCommand,
  sharedControlPlane,
  temporaryDirectory,
  type TemporaryDirectory,
} from "@cocoon/testkit";
import { bundle } from "../../../scripts/build/bundle.ts";
import { notInPath, programs } from "../../../scripts/build/programs.ts";
import { installCrds } from "../contract/install-crds.ts";
import { root, version } from "./rendered.ts";

let directory: TemporaryDirectory;
/** The bundles, moved away from where they were built. */
let bundles: string;
let executable: string;

before(async () => {
  directory = await temporaryDirectory();
  const built = await runCommand(
    process.execPath,
    [
      join(root, "scripts/build.ts"),
      "--only=bundles",
      "--only=executable",
      "--out",
      join(directory.path, "built"),
    ],
    {
      cwd: root,
      env: { COCOON_REVISION: "0123456789ab", SOURCE_DATE_EPOCH: "1700000000" },
      timeoutMs: 600_000,
    },
  );
  assert.equal(built.code, 0, built.stderr);
  const name = `cocoon-${version()}`;
  [bundles, executable] = [join(directory.path, "bundles"), join(directory.path, "executable")];
  await rename(join(directory.path, "built", name), bundles);
  await rename(join(directory.path, "built", `${name}-linux-${arch()}`), executable);
});
after(() => directory[Symbol.asyncDispose]());

/** The environment of a host that has never heard of us. */
const bare = (path: string) => ({ PATH: path, HOME: directory.path, NODE_OPTIONS: "", KUBECONFIG: "" });
const nodeDirectory = dirname(process.execPath);

/** How a program calls itself. */
const ownName = (program: string) =>
  ({ "kubectl-cocoon": "kubectl cocoon", cocoon: "Version:       ", "cocoon-qemu": "Version:       " })[
    program
  ] ?? program;

/** The drop-in engine keeps the words of the command it replaces. */
const askVersion = (program: string) =>
  ["cocoon", "cocoon-qemu"].includes(program) ? ["version"] : ["--version"];

/** Programs that replace a Go one: arguments of its Deployment or unit start ours, klog's flags among them. */
const replacesGo = new Set(["cocoon-operator", "cocoon-webhook", "cocoon-colocation", "vk-cocoon", "epoch"]);

/** Where a release has a program. */
const formatPath = (tree: string, program: string) =>
  join(tree, notInPath.has(program) ? "lib/cocoon/bin" : "bin", program);

describe("every bundle", () => {
  for (const program of Object.keys(programs))
    test(`${program} says its version and helps`, async () => {
      const command = formatPath(bundles, program);
      const env = bare(`${nodeDirectory}:/usr/bin:/bin`);
      const klog = replacesGo.has(program) ? ["--v=4", "-logtostderr", "--stderrthreshold", "INFO"] : [];
      const args = [...klog, ...askVersion(program)];
      const said = await runCommand(command, args, { env, cwd: directory.path });
      assert.equal(said.code, 0, said.stderr.slice(-2_000));
      assert.ok(said.stdout.startsWith(`${ownName(program)} ${version()}`), said.stdout);
      assert.match(said.stdout, /0123456789ab/);
      assert.match(said.stdout, /2023-11-14T22:13:20/);
      const help = await runCommand(command, ["--help"], { env, cwd: directory.path });
      assert.equal(help.code, 0, help.stderr.slice(-2_000));
      assert.match(help.stdout, /usage/i);
    });
});

test("an archive that is unpacked over a host's cocoon leaves it alone", () => {
  for (const tree of [bundles, executable]) assert.equal(existsSync(join(tree, "bin/cocoon")), false);
});

test("start files name the Node version they need", async () => {
  const old = join(directory.path, "old-node");
  // As an older Node does it: the check must come before anything that only a newer one has.
  await writeFile(
    old,
    `#!/bin/sh\nexec ${process.execPath} --import ${join(directory.path, "as-node-20.mjs")} "$@"\n`,
    { mode: 0o755 },
  );
  await writeFile(
    join(directory.path, "as-node-20.mjs"),
    'Object.defineProperty(process.versions, "node", { value: "20.20.2" });\n',
  );
  for (const program of Object.keys(programs)) {
    const started = await runCommand(old, [join(bundles, "lib/cocoon/start", `${program}.mjs`)]);
    assert.equal(started.code, 1, program);
    assert.match(started.stderr, /needs Node 26 or newer/);
    const text = readFileSync(join(bundles, "lib/cocoon/start", `${program}.mjs`), "utf8");
    assert.doesNotMatch(text, /import \{ enableCompileCache/, "a missing export fails before the check");
  }
});

describe("the executable", () => {
  test("runs every program by the name of its link, without Node", async () => {
    const names = Object.keys(programs);
    for (const program of names.slice(0, count({ small: 2, full: names.length }))) {
      const said = await runCommand(formatPath(executable, program), askVersion(program), {
        env: bare("/nonexistent"),
        cwd: directory.path,
      });
      assert.equal(said.code, 0, `${program}: ${said.stderr.slice(-2_000)}`);
      assert.ok(said.stdout.startsWith(`${ownName(program)} ${version()}`), said.stdout);
      assert.match(said.stdout, /0123456789ab/);
    }
  });

  test("runs a program by its first argument, and names them all otherwise", async () => {
    const suite = join(executable, "lib/cocoon/cocoon-suite");
    const named = await runCommand(suite, ["epoch", "serve", "--version"], { env: bare("/nonexistent") });
    assert.equal(named.stdout.split(" ").slice(0, 2).join(" "), `epoch ${version()}`);
    const unnamed = await runCommand(suite, [], { env: bare("/nonexistent") });
    assert.equal(unnamed.code, 2);
    for (const program of Object.keys(programs))
      assert.match(unnamed.stderr, new RegExp(`^  ${program}$`, "m"));
  });
});

describe("what programs look for beside themselves", () => {
  for (const flavour of ["bundles", "executable"] as const)
    test(`is there (${flavour})`, async () => {
      const tree = flavour === "bundles" ? bundles : executable;
      const planned = await runCommand(
        join(tree, "bin/cocoonctl"),
        ["up", "--dry-run", "--dir", join(directory.path, "home")],
        {
          env: bare(`${nodeDirectory}:/usr/bin:/bin`),
        },
      );
      assert.equal(planned.code, 0, planned.stderr.slice(-2_000));
      const library = join(tree, "lib/cocoon");
      const named = planned.stdout.match(new RegExp(`${library}/[\\w./-]+`, "g")) ?? [];
      assert.ok(named.length > 0, planned.stdout);
      for (const path of named) assert.ok(existsSync(path), path);
      assert.ok(!planned.stdout.includes(join(root, "packages")), planned.stdout);
      for (const companion of ["guest", "native", "go", "deploy/crds", "packaging/systemd"])
        assert.ok(readdirSync(join(library, companion)).length > 0, companion);
    });

  test("worker threads run inside one file", async () => {
    const place = join(directory.path, "worker");
    await mkdir(place);
    const source = `
      import { openSync } from "node:fs";
      import { WorkerPool } from "./packages/oci/src/chunks/worker-pool.ts";
      await using pool = new WorkerPool({ threads: 1 });
      const signal = AbortSignal.timeout(60_000);
      const fd = openSync(import.meta.filename, "r");
      const task = { kind: "digest", fd, ranges: [{ offset: 0, length: 100 }] };
      console.log((await pool.run(task, { signal })).digest);
    `;
    const info = { version: "0", revision: "0", builtAt: "0" };
    await bundle({ source }, { info, flavour: "bundles", directory: place });
    await writeFile(join(place, "package.json"), "{}");
    const ran = await runCommand(process.execPath, [join(place, "stdin.mjs")], { cwd: place });
    assert.equal(ran.code, 0, ran.stderr.slice(-2_000));
    const beginning = readFileSync(join(place, "stdin.mjs")).subarray(0, 100);
    assert.match(ran.stdout, new RegExp(createHash("sha256").update(beginning).digest("hex")));
  });
});

interface Service {
  readonly program: string;
  readonly args: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** Starts a program of a release and waits until it says that it is ready; returns when it has stopped properly. */
async function serves(tree: string, { program, args, env = {} }: Service, health: string): Promise<void> {
  const logFile = join(directory.path, `${program}.log`);
  const command = join(tree, "bin", program);
  const path = tree === bundles ? `${nodeDirectory}:/usr/bin:/bin` : "/nonexistent";
  await using running = await startProgram({
    name: program,
    command,
    args,
    logFile,
    env: { ...bare(path), ...env },
  });
  const log = () => readFileSync(logFile, "utf8").slice(-2_000);
  await eventually(
    async () => {
      const answer = await fetch(`${health}/readyz`);
      assert.equal(answer.status, 200, await answer.text());
    },
    { timeoutMs: 60_000 },
  ).catch((error: unknown) => assert.fail(`${String(error)}\n${log()}`));
  await running.stop();
  assert.equal((await running.exited).code, 0, log());
}

describe("released programs serve", () => {
  test("the registry, from a bundle", async () => {
    await using port = await reservePort();
    await using healthPort = await reservePort();
    const health = `127.0.0.1:${healthPort.port}`;
    const args = [
      "serve",
      `--addr=127.0.0.1:${port.port}`,
      `--health-addr=${health}`,
      `--root=${directory.path}/epoch`,
    ];
    await serves(bundles, { program: "epoch", args }, `http://${health}`);
  });

  test("the operator, from the executable, with a real API server", async () => {
    const cluster = await sharedControlPlane();
    await installCrds(cluster);
    await using namespace = await cluster.newNamespace();
    await using port = await reservePort();
    await using healthPort = await reservePort();
    const health = `127.0.0.1:${healthPort.port}`;
    const service = {
      program: "cocoon-operator",
      args: [`--metrics-bind-address=127.0.0.1:${port.port}`, `--health-probe-bind-address=${health}`],
      // Other tests use this cluster, too.
      env: {
        KUBECONFIG: cluster.kubeconfigPath,
        WATCH_NAMESPACE: namespace.name,
        LEADER_ELECT: "false",
        LEGACY_API: "off",
      },
    };
    await serves(executable, service, `http://${health}`);
  });
});

test("the documented lines install a host", async () => {
  const documentation = readFileSync(join(root, "docs/install.md"), "utf8");
  const script = /<!-- These lines are run by .*? -->\n```sh\n(.*?)```/s.exec(documentation)?.[1] ?? "";
  assert.ok(
    script.includes(`cocoon-${version()}-linux-${arch()}.tar.gz`),
    "docs/install.md has no such lines",
  );
  const scratch = join(directory.path, "scratch");
  await mkdir(scratch);
  const installed = await runCommand("sh", ["-euc", script], {
    cwd: join(directory.path, "built"),
    env: { ...bare("/usr/bin:/bin"), ROOT: scratch },
  });
  assert.equal(installed.code, 0, installed.stderr);
  assert.match(installed.stdout, new RegExp(`vk-cocoon ${version()}`));
  assert.equal(statSync(join(scratch, "etc/cocoon/vk-cocoon.env")).mode & 0o777, 0o600);
  const unit = readFileSync(join(scratch, "etc/systemd/system/vk-cocoon.service"), "utf8");
  const program = /^ExecStart=(\S+)/m.exec(unit)?.[1] ?? "";
  assert.ok(existsSync(join(scratch, program)), program);
});

test("the notices name what is inside, and nothing that only builds it", async () => {
  const out = join(directory.path, "notices");
  const built = await runCommand(
    process.execPath,
    [join(root, "scripts/build.ts"), "--only", "notices", "--out", out],
    { cwd: root },
  );
  assert.equal(built.code, 0, built.stderr);
  const bill = JSON.parse(readFileSync(join(out, "sbom.cdx.json"), "utf8")) as {
    readonly bomFormat: string;
    readonly components: readonly { readonly name: string }[];
  };
  assert.equal(bill.bomFormat, "CycloneDX");
  const names = new Set(bill.components.map(({ name }) => name));
  const licences = readFileSync(join(out, "LICENSES.txt"), "utf8");
  for (const name of ["undici", "zod", "ssh2", "commander"]) {
    assert.ok(names.has(name), name);
    assert.match(licences, new RegExp(`^${name} \\d`, "m"));
  }
  for (const name of ["typescript", "esbuild", "knip"]) {
    assert.ok(!names.has(name), name);
    assert.doesNotMatch(licences, new RegExp(`^${name} \\d`, "m"));
  }
});
