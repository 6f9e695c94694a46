/** Public methods of the SDK that the quick tests leave out, on the template that `Sandbox.create()` means: a real Debian. */
import assert from "node:assert/strict";
import { text } from "node:stream/consumers";
import { after, before, test } from "node:test";
import { eventually, fullTierOnly, ownControlPlane, tier, type OwnControlPlane } from "@cocoon/testkit";
import { baseImageName, openImageLibrary } from "@cocoon/images";
import { CommandExitError, Sandbox } from "e2b";
import { imageDirectory } from "../vm/qemu-harness.ts";
import { openGatewayWorld, type GatewayWorld } from "./world.ts";

const onlyFull = fullTierOnly("the base image is built from Debian packages");
const slow = { requestTimeoutMs: 240_000, timeoutMs: 3_600_000 };
let cluster: OwnControlPlane;
let world: GatewayWorld;
let connection: GatewayWorld["connection"];
let sandbox: Sandbox;

before(async () => {
  if (tier() !== "full") return;
  const signal = AbortSignal.timeout(1_200_000);
  await openImageLibrary({ directory: imageDirectory() }).pull(baseImageName, { signal });
  cluster = await ownControlPlane();
  world = await openGatewayWorld(cluster);
  const size = { mode: "run", cpus: 1, memoryMiB: 512, storageMiB: 2048 } as const;
  const gateway = await world.newGateway({ templates: { base: { image: baseImageName, ...size } } });
  connection = { ...world.connection, apiUrl: gateway.server.url, sandboxUrl: gateway.server.url };
  sandbox = await Sandbox.create({ ...connection, ...slow, metadata: { of: "methods" } });
});

after(async () => {
  await world?.[Symbol.asyncDispose]();
  await cluster?.[Symbol.asyncDispose]();
});

test("base is a Debian with python3, pip, git, curl, two users and sudo", onlyFull, async () => {
  const ran = await sandbox.commands.run(
    "id -un; sudo id -un; python3 -c 'print(6 * 7)'; git --version; curl --version | head -n 1; pip --version; cat /etc/debian_version",
    { timeoutMs: 120_000 },
  );
  const [user, root, answer, git, curl, pip, debian] = ran.stdout.split("\n");
  assert.deepEqual([user, root, answer], ["user", "root", "42"]);
  assert.match(`${git} ${curl} ${pip} ${debian}`, /^git version .* curl .* pip .* 1\d/);
});

test("input ends by closeStdin, and a terminal is taken up again and killed", onlyFull, async () => {
  const sum = await sandbox.commands.run("wc -c", { background: true, stdin: true });
  await sum.sendStdin("12345");
  await sum.closeStdin();
  assert.equal((await sum.wait()).stdout.trim(), "5");
  const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData: () => undefined, timeoutMs: 0 });
  await terminal.disconnect();
  let shown = "";
  const again = await sandbox.pty.connect(terminal.pid, {
    onData: (data) => void (shown += Buffer.from(data).toString()),
  });
  await sandbox.pty.sendInput(terminal.pid, Buffer.from("echo $((40 + 2))\n"));
  await eventually(() => assert.match(shown, /42/));
  assert.equal(await sandbox.pty.kill(terminal.pid), true);
  await assert.rejects(again.wait(), CommandExitError);
  assert.equal(await sandbox.pty.kill(terminal.pid), false);
});

test(
  "files are read and written in every format, compressed, with metadata and by URL",
  onlyFull,
  async () => {
    await sandbox.files.write("tree/a/b", "deep", { gzip: true, metadata: { author: "ann" } });
    assert.equal(await text(await sandbox.files.read("tree/a/b", { format: "stream" })), "deep");
    assert.equal(await (await sandbox.files.read("tree/a/b", { format: "blob" })).text(), "deep");
    assert.equal(await sandbox.files.read("tree/a/b", { format: "text", gzip: true }), "deep");
    assert.deepEqual((await sandbox.files.getInfo("tree/a/b")).metadata, { author: "ann" });
    const listed = await sandbox.files.list("tree", { depth: 2 });
    assert.deepEqual(
      listed.map(({ path, type }) => `${path} ${type}`),
      ["/home/user/tree/a dir", "/home/user/tree/a/b file"],
    );
    await sandbox.files.writeFiles([{ path: "one", data: "1" }]);
    const headers = { "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": "49983" };
    const form = new FormData();
    form.append("file", new Blob(["by URL"]), "two");
    const url = await sandbox.uploadUrl("two", { user: "user", useSignatureExpiration: 60 });
    assert.equal((await fetch(url, { method: "POST", headers, body: form })).status, 200);
    assert.equal(await sandbox.files.read("two"), "by URL");
  },
);

test("a watch reaches subdirectories and describes entries", onlyFull, async () => {
  const seen: string[] = [];
  const watcher = await sandbox.files.watchDir(
    "tree",
    ({ name, type, entry }) => void seen.push(`${name} ${type} ${entry?.size ?? "-"}`),
    { recursive: true, includeEntry: true },
  );
  await sandbox.files.write("tree/a/c", "123");
  await eventually(() => assert.ok(seen.includes("a/c write 3"), seen.join(", ")));
  await watcher.stop();
});

test("git works on repositories of the guest", onlyFull, async () => {
  const { git } = sandbox;
  const path = "/home/user/work";
  await git.init("/home/user/remote.git", { bare: true, initialBranch: "main" });
  await git.init(path, { initialBranch: "main" });
  await git.configureUser("Ann", "ann@example.com", { scope: "local", path });
  await git.setConfig("core.abbrev", "12", { scope: "local", path });
  assert.equal(await git.getConfig("core.abbrev", { scope: "local", path }), "12");
  await sandbox.files.write(`${path}/file`, "1");
  assert.equal((await git.status(path)).hasUntracked, true);
  await git.add(path);
  await git.commit(path, "first");
  await git.remoteAdd(path, "origin", "/home/user/remote.git");
  assert.equal(await git.remoteGet(path, "origin"), "/home/user/remote.git");
  await git.push(path, { remote: "origin", branch: "main", setUpstream: true });
  await git.createBranch(path, "topic");
  await git.checkoutBranch(path, "main");
  assert.deepEqual((await git.branches(path)).branches.toSorted(), ["main", "topic"]);
  await git.deleteBranch(path, "topic");
  await sandbox.files.write(`${path}/file`, "2");
  await git.restore(path, { paths: ["file"] });
  assert.equal(await sandbox.files.read(`${path}/file`), "1");
  await git.reset(path, { mode: "hard" });
  await git.pull(path, { remote: "origin", branch: "main" });
  await git.clone("/home/user/remote.git", { path: "/home/user/copy" });
  assert.equal(await sandbox.files.read("/home/user/copy/file"), "1");
});

test(
  "by id, without an object: info, metrics, timeout, pause, connect, snapshot, list in order, kill",
  onlyFull,
  async () => {
    const { sandboxId } = sandbox;
    await Sandbox.setTimeout(sandboxId, 1_800_000, connection);
    const leftMs = (await Sandbox.getInfo(sandboxId, connection)).endAt.getTime() - Date.now();
    assert.ok(leftMs > 1_700_000 && leftMs <= 1_800_000, String(leftMs));
    assert.equal((await Sandbox.getFullInfo(sandboxId, connection)).sandboxId, sandboxId);
    assert.ok((await Sandbox.getMetrics(sandboxId, connection)).length > 0);
    const { snapshotId } = await Sandbox.createSnapshot(sandboxId, { ...connection, ...slow });
    assert.equal(await Sandbox.deleteSnapshot(snapshotId, connection), true);
    assert.equal(await Sandbox.pause(sandboxId, { ...connection, ...slow }), true);
    const list = async (query: object, more: object = {}) =>
      (await Sandbox.list({ ...connection, query, ...more }).nextItems()).map((each) => each.sandboxId);
    assert.deepEqual(await list({ state: ["paused"], template: "base" }), [sandboxId]);
    assert.deepEqual(await list({ state: ["running"] }), []);
    assert.deepEqual(await list({ startedAfter: new Date(Date.now() + 60_000) }), []);
    sandbox = await Sandbox.connect(sandboxId, { ...connection, ...slow });
    const [fork] = await Sandbox.fork(sandboxId, { ...connection, ...slow });
    assert.ok(fork && "sandboxId" in fork, JSON.stringify(fork));
    assert.deepEqual(await list({}, { order: "asc" }), [sandboxId, fork.sandboxId]);
    const pages = Sandbox.list({ ...connection, limit: 1 });
    const paged = [...(await pages.nextItems()), ...(await pages.nextItems())];
    assert.deepEqual(
      paged.map((each) => each.sandboxId),
      [fork.sandboxId, sandboxId],
    );
    assert.equal(pages.hasNext, false);
    assert.equal(await Sandbox.kill(fork.sandboxId, connection), true);
  },
);
