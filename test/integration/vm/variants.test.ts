/** Other circumstances than the usual ones: pages that cannot be read, a screen, no privilege, a full disk. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { chown, cp, mkdir, readFile, readdir, rmdir } from "node:fs/promises";
import { basename, join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { fullTierOnly, requireRoot, temporaryDirectory } from "@cocoon/testkit";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import { imageDirectory, leftoversIn, openQemuHarness, openQemuRuntimeIn } from "./qemu-harness.ts";

const run = promisify(execFile);
const { signal } = new AbortController();
const ready = () => AbortSignal.timeout(180_000);
const worker = join(import.meta.dirname, "scenario-worker.ts");

test(
  "where pages cannot be read, a machine is saved as a stream and goes on from it",
  { timeout: 600_000 },
  async () => {
    await using harness = await openQemuHarness({ signal, readPages: false });
    const { runtime } = harness;
    const vm = await runtime.run({ name: "streamed", image: harness.image, ...harness.small }, { signal });
    await runtime.waitReady(vm.id, { signal: ready() });
    await using written = await runtime.exec(
      vm.id,
      { argv: ["sh", "-c", "echo remembered > /run/fact"] },
      { signal },
    );
    assert.equal((await written.exited).code, 0);
    const { snapshot } = await runtime.snapshots.save(vm.id, { signal });
    const files = await runtime.snapshots.withFiles(snapshot.id, (view) => Promise.resolve(view.files), {
      signal,
    });
    const names = files.map(({ name }) => name);
    assert.ok(names.includes("machine-stream") && !names.includes("memory-ranges"), names.join(" "));
    const clone = await runtime.clone({ name: "from-stream", snapshot: snapshot.id }, { signal });
    await runtime.waitReady(clone.id, { signal: ready() });
    for (const ref of [vm.id, clone.id]) {
      await using program = await runtime.exec(ref, { argv: ["cat", "/run/fact"] }, { signal });
      assert.equal((await program.stdout.toArray()).join(""), "remembered\n");
    }
    for (const each of [vm, clone]) await runtime.remove(each.id, { force: true, signal });
    await runtime.snapshots.remove(snapshot.id, { signal });
    assert.deepEqual(await leftoversIn(harness.root), []);
  },
);

test("pages and streams may follow each other in the life of a machine", { timeout: 600_000 }, async () => {
  await using harness = await openQemuHarness({ signal });
  await using streaming = await openQemuRuntimeIn(harness.root, { signal, readPages: false });
  const { runtime: byPages } = harness;
  let vm = await byPages.run({ name: "life-0", image: harness.image, ...harness.small }, { signal });
  await byPages.waitReady(vm.id, { signal: ready() });
  const told = async (argv: readonly string[]) => {
    await using program = await byPages.exec(vm.id, { argv: [...argv] }, { signal });
    return (await program.stdout.toArray()).join("");
  };
  await told(["sh", "-c", "echo remembered > /run/fact"]);
  for (const [turn, saver] of [byPages, streaming, byPages, streaming].entries()) {
    const { snapshot } = await saver.snapshots.save(vm.id, { signal });
    const names = await saver.snapshots.withFiles(
      snapshot.id,
      ({ files }) => Promise.resolve(files.map(({ name }) => name)),
      { signal },
    );
    assert.equal(names.includes("machine-stream"), saver === streaming, names.join(" "));
    const next = await byPages.clone({ name: `life-${turn + 1}`, snapshot: snapshot.id }, { signal });
    await byPages.waitReady(next.id, { signal: ready() });
    await byPages.remove(vm.id, { force: true, signal });
    await byPages.snapshots.remove(snapshot.id, { signal });
    vm = next;
    assert.equal(await told(["cat", "/run/fact"]), "remembered\n", `turn ${turn}`);
  }
});

test(
  "a machine with a screen shows it, also after it was saved and cloned",
  { timeout: 600_000 },
  async () => {
    await using harness = await openQemuHarness({ signal });
    const { runtime } = harness;
    const spec = { name: "desktop", image: harness.image, ...harness.small, display: true };
    const vm = await runtime.run(spec, { signal });
    await runtime.waitReady(vm.id, { signal: ready() });
    const { snapshot } = await runtime.snapshots.save(vm.id, { signal });
    const clone = await runtime.clone({ name: "desktop-two", snapshot: snapshot.id }, { signal });
    await runtime.waitReady(clone.id, { signal: ready() });
    for (const ref of [vm.id, clone.id]) {
      const screen = await runtime.openDisplay(ref, { signal });
      const [greeting] = (await screen.take(1).toArray()) as Buffer[];
      assert.match(String(greeting), /^RFB 003\.008/);
      screen.destroy();
    }
    for (const each of [vm, clone]) await runtime.remove(each.id, { force: true, signal });
    await runtime.snapshots.remove(snapshot.id, { signal });
    assert.deepEqual(await leftoversIn(harness.root), []);
  },
);

/** A copy of the images that belongs to another user. */
async function imagesFor(directory: string, uid: number): Promise<string> {
  await openImageLibrary({ directory: imageDirectory() }).pull(demoImageName, { signal });
  const target = join(directory, "images");
  // Locks are others' business, and come and go.
  await cp(imageDirectory(), target, { recursive: true, filter: (path) => basename(path) !== "locks" });
  await run("chown", ["-R", `${uid}:${uid}`, directory]);
  return target;
}

test("everything works without privilege", { timeout: 600_000 }, async () => {
  await using directory = await temporaryDirectory();
  const nobody = 65_534;
  const asRoot = process.getuid?.() === 0;
  const uid = asRoot ? nobody : (process.getuid?.() ?? nobody);
  const images = await imagesFor(directory.path, uid);
  const root = join(directory.path, "root");
  await mkdir(root);
  if (asRoot) await chown(root, uid, uid);
  const drop = asRoot
    ? ["setpriv", `--reuid=${uid}`, `--regid=${uid}`, "--clear-groups", "--no-new-privs"]
    : [];
  const [command, ...args] = [...drop, process.execPath, worker, "life", root, images];
  const { stdout } = await run(command, args, {
    timeout: 300_000,
    env: { PATH: process.env["PATH"], HOME: directory.path },
  });
  const seen = JSON.parse(stdout) as { uid: number; codes: number[]; files: string[] };
  assert.equal(seen.uid, uid);
  assert.deepEqual(seen.codes, [0, 0]);
  assert.ok(seen.files.includes("memory-ranges"), "pages can be read without privilege");
  assert.deepEqual(await leftoversIn(root), []);
});

test(
  "a full disk refuses a save, freezes a guest that fills it, and both go on once there is room",
  { timeout: 600_000, ...fullTierOnly("filling a disk from inside an emulated guest takes long") },
  async () => {
    await using directory = await temporaryDirectory();
    await openImageLibrary({ directory: imageDirectory() }).pull(demoImageName, { signal });
    // A small file system that exists only for the worker. Not one in memory: there the guest's own memory needs room
    // on the disk as well, and QEMU ends with a bus error when there is none.
    const disk = join(directory.path, "disk");
    await run("truncate", ["--size=360M", disk]);
    await run("mkfs.ext4", ["-q", "-m", "0", disk]);
    const script = `mount -o loop "$5" "$1" && rmdir "$1/lost+found" && exec "$2" "$3" full "$1" "$4"`;
    const root = join(directory.path, "root");
    await mkdir(root);
    const args = [
      "--mount",
      "sh",
      "-c",
      script,
      "sh",
      root,
      process.execPath,
      worker,
      imageDirectory(),
      disk,
    ];
    const { stdout } = await run("unshare", args, { timeout: 420_000 });
    const seen = JSON.parse(stdout) as {
      saves: number;
      refused: { code: string; text: string };
      listed: number;
      answered: number;
      starved: { problem: string; text: string; code: number };
      state: string;
      restarted: { problem: string; code: number };
    };
    assert.equal(seen.refused.code, "outOfSpace", JSON.stringify(seen.refused));
    assert.equal(seen.listed, seen.saves);
    assert.deepEqual([seen.state, seen.answered], ["running", 0]);
    assert.match(seen.starved.problem, /it resumes once there is room/);
    assert.deepEqual([seen.starved.text, seen.starved.code], ["wrote", 0]);
    assert.match(seen.restarted.problem, /it resumes once there is room/);
    assert.equal(seen.restarted.code, 0);
  },
);

test(
  "a machine that is saved and cloned again and again keeps short chains of layers",
  { timeout: 600_000, ...fullTierOnly("many generations of one machine") },
  async () => {
    await using harness = await openQemuHarness({ signal });
    const { runtime } = harness;
    let vm = await runtime.run({ name: "generation-0", image: harness.image, ...harness.small }, { signal });
    await runtime.waitReady(vm.id, { signal: ready() });
    const countLayers = async (id: string) =>
      (await readdir(join(harness.root, "qemu", "vms", id, "files-1"))).filter((name) =>
        name.startsWith("root-"),
      ).length;
    for (let generation = 1; generation <= 12; generation += 1) {
      await using program = await runtime.exec(
        vm.id,
        {
          argv: [
            "sh",
            "-c",
            `echo ${generation} > /root/${generation}; sync; cat /root/* | sort -n | tr '\\n' ' '`,
          ],
        },
        { signal },
      );
      const expected = Array.from({ length: generation }, (_each, index) => `${index + 1} `).join("");
      assert.equal((await program.stdout.toArray()).join(""), expected);
      const { snapshot } = await runtime.snapshots.save(vm.id, { signal });
      const next = await runtime.clone(
        { name: `generation-${generation}`, snapshot: snapshot.id },
        { signal },
      );
      await runtime.snapshots.remove(snapshot.id, { signal });
      await runtime.remove(vm.id, { force: true, signal });
      vm = next;
      await runtime.waitReady(vm.id, { signal: ready() });
    }
    assert.ok((await countLayers(vm.id)) <= 11, `${await countLayers(vm.id)} layers`);
    await runtime.stop(vm.id, { force: true, signal });
    await runtime.start(vm.id, { signal });
    await runtime.waitReady(vm.id, { signal: ready() });
    await using program = await runtime.exec(vm.id, { argv: ["cat", "/root/1", "/root/12"] }, { signal });
    assert.equal((await program.stdout.toArray()).join(""), "1\n12\n");
    await runtime.remove(vm.id, { force: true, signal });
    assert.deepEqual(await leftoversIn(harness.root), []);
  },
);

test(
  "as root, QEMU runs as another user and in a cgroup, and a clone's disk may grow",
  { timeout: 600_000 },
  async () => {
    requireRoot("run QEMU as another user");
    const firstUid = 2_000_100_000;
    const readUid = async (pid: number | undefined) =>
      Number(/^Uid:\s+(\d+)\s/m.exec(await readFile(`/proc/${pid}/status`, "latin1"))?.[1]);
    const cgroupParent = `cocoon-test-${process.pid}`;
    await using harness = await openQemuHarness({
      signal,
      runAs: { uid: firstUid, gid: firstUid, count: 1000 },
      cgroupParent,
    });
    const { runtime } = harness;
    const spec = { name: "unprivileged", image: harness.image, ...harness.small, cpuPolicy: { weight: 50 } };
    const vm = await runtime.run(spec, { signal });
    await runtime.waitReady(vm.id, { signal: ready() });
    const status = await readFile(`/proc/${vm.pid}/status`, "latin1");
    assert.equal(await readUid(vm.pid), firstUid);
    assert.match(status, /^NoNewPrivs:\s+1$/m);
    assert.match(status, /^Seccomp:\s+2$/m);
    assert.match(
      await readFile(`/proc/${vm.pid}/cgroup`, "latin1"),
      new RegExp(`/${cgroupParent}/vm-${vm.id}\\.scope`),
    );
    const { snapshot } = await runtime.snapshots.save(vm.id, { signal });
    const grown = { name: "grown", snapshot: snapshot.id, storageBytes: 1024 * 1024 * 1024 };
    const clone = await runtime.clone(grown, { signal });
    await runtime.waitReady(clone.id, { signal: ready() });
    await using program = await runtime.exec(clone.id, { argv: ["cat", "/sys/block/vda/size"] }, { signal });
    assert.equal((await program.stdout.toArray()).join("").trim(), String((1024 * 1024 * 1024) / 512));
    assert.equal(await readUid(clone.pid), firstUid + 1, "each machine has a user of its own");
    const saved = await runtime.snapshots.save(clone.id, { signal });
    for (const each of [vm, clone]) await runtime.remove(each.id, { force: true, signal });
    for (const { id } of [snapshot, saved.snapshot]) await runtime.snapshots.remove(id, { signal });
    assert.deepEqual(await leftoversIn(harness.root), []);
    const cpuGroup = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"].map((root) => join(root, cgroupParent));
    const scopes = await Promise.all(cpuGroup.map((folder) => readdir(folder).catch(() => [])));
    assert.deepEqual(
      scopes.flat().filter((name) => name.endsWith(".scope")),
      [],
    );
    for (const controller of ["", "cpu", "memory", "pids"])
      await rmdir(join("/sys/fs/cgroup", controller, cgroupParent)).catch(() => undefined);
  },
);
