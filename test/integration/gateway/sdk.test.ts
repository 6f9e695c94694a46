/** The public E2B SDK, unchanged, against a gateway with real guests. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { nodeLabel } from "@cocoon/contract";
import { count, eventually, ownControlPlane } from "@cocoon/testkit";
import { Sandbox as CodeInterpreter } from "@e2b/code-interpreter";
import * as current from "e2b";
import * as older from "e2b-2.45";
import * as middle from "e2b-2.50";
import { openGatewayWorld, type GatewayWorld } from "./world.ts";

const { Sandbox, CommandExitError, FileNotFoundError } = current;
const cluster = await ownControlPlane();
let world: GatewayWorld;
let sandbox: current.Sandbox;

/** Guests are emulated, and the machine that runs the tests is shared. */
const slow = { requestTimeoutMs: 240_000 };
const life = { timeoutMs: 3_600_000 };

before(async () => {
  world = await openGatewayWorld(cluster);
  sandbox = await Sandbox.create({
    ...world.connection,
    ...slow,
    ...life,
    metadata: { purpose: "a&b=c" },
    envs: { FROM_CREATE: "yes" },
  }).catch(async (error: unknown) => {
    throw new Error(await world.describe(), { cause: error });
  });
});

after(async () => {
  await world[Symbol.asyncDispose]();
  await cluster[Symbol.asyncDispose]();
});

test("a sandbox is a CocoonSet of the tenant's namespace that expires", async () => {
  const path = `/apis/cocoonset.cocoonstack.io/v1/namespaces/${world.namespace}/cocoonsets/${sandbox.sandboxId}`;
  const set = (await world.client.raw({ method: "GET", path, signal: AbortSignal.timeout(10_000) })) as {
    spec: { expire: { at: string; action: string } };
  };
  assert.equal(set.spec.expire.action, "Delete");
  const leftMs = Date.parse(set.spec.expire.at) - Date.now();
  assert.ok(leftMs > 3_000_000 && leftMs <= 3_600_000, String(leftMs));
});

test("info and list show it, by metadata and state", async () => {
  const info = await sandbox.getInfo();
  assert.deepEqual([info.state, info.metadata, info.templateId], ["running", { purpose: "a&b=c" }, "base"]);
  const find = async (metadata: Record<string, string>) =>
    (await Sandbox.list({ ...world.connection, query: { metadata } }).nextItems()).map(
      (each) => each.sandboxId,
    );
  assert.deepEqual(await find({ purpose: "a&b=c" }), [sandbox.sandboxId]);
  assert.deepEqual(await find({ purpose: "other" }), []);
});

test("commands have output, errors, an environment, a user, a directory and an exit code", async () => {
  const ran = await sandbox.commands.run('echo "$FROM_CREATE $X $(id -un) $PWD"; echo oops >&2', {
    envs: { X: "1" },
  });
  assert.deepEqual([ran.stdout, ran.stderr, ran.exitCode], ["yes 1 user /home/user\n", "oops\n", 0]);
  const asRoot = await sandbox.commands.run("id -un; pwd", { user: "root", cwd: "/tmp" });
  assert.equal(asRoot.stdout, "root\n/tmp\n");
  await assert.rejects(
    sandbox.commands.run("exit 7"),
    (error) => error instanceof CommandExitError && error.exitCode === 7,
  );
  await assert.rejects(sandbox.commands.run("true", { cwd: "/none" }), current.InvalidArgumentError);
  await assert.rejects(sandbox.commands.run("true", { user: "nobodyknows" }), current.AuthenticationError);
  const missing = await sandbox.commands.run("no-such-program").catch((error: unknown) => error);
  assert.ok(missing instanceof CommandExitError && missing.exitCode === 127);
});

test("a process goes on without its client, takes input, and is killed by pid", async () => {
  const process = await sandbox.commands.run("cat", { background: true, stdin: true, timeoutMs: 0 });
  await process.disconnect();
  const listed = await sandbox.commands.list();
  assert.ok(listed.some(({ pid }) => pid === process.pid));
  let output = "";
  const again = await sandbox.commands.connect(process.pid, { onStdout: (text) => void (output += text) });
  await sandbox.commands.sendStdin(process.pid, "hello\n");
  await eventually(() => assert.equal(output, "hello\n"));
  assert.equal(await sandbox.commands.kill(process.pid), true);
  await assert.rejects(again.wait(), (error) => error instanceof CommandExitError && error.exitCode === -1);
  assert.equal(await sandbox.commands.kill(process.pid), false);
});

test("a command that outlives its timeout is killed", async () => {
  const process = await sandbox.commands.run("sleep 600", { background: true, timeoutMs: 2_000 });
  await assert.rejects(process.wait());
  await eventually(async () =>
    assert.ok(!(await sandbox.commands.list()).some(({ pid }) => pid === process.pid)),
  );
});

test("files are written, read, listed, moved and removed", async () => {
  await sandbox.files.write("dir/a.txt", "content ü");
  assert.equal(await sandbox.files.read("dir/a.txt"), "content ü");
  const info = await sandbox.files.getInfo("dir/a.txt");
  assert.deepEqual(
    [info.path, info.owner, info.permissions, info.size],
    ["/home/user/dir/a.txt", "user", "-rw-r--r--", 10],
  );
  await sandbox.files.write([
    { path: "b.txt", data: "b" },
    { path: "/tmp/c.txt", data: "" },
  ]);
  assert.equal(await sandbox.files.read("/tmp/c.txt"), "");
  const names = async (path: string) =>
    (await sandbox.files.list(path)).map(({ name }) => name).filter((name) => !name.startsWith("."));
  assert.deepEqual(await names("."), ["b.txt", "dir"]);
  assert.deepEqual(
    [await sandbox.files.makeDir("dir/new"), await sandbox.files.makeDir("dir/new")],
    [true, false],
  );
  await sandbox.files.rename("b.txt", "dir/new/d.txt");
  assert.deepEqual(
    [await sandbox.files.exists("b.txt"), await sandbox.files.exists("dir/new/d.txt")],
    [false, true],
  );
  await sandbox.files.remove("dir");
  await assert.rejects(sandbox.files.read("dir/a.txt"), FileNotFoundError);
});

test("two megabytes come back as they went, and files of /proc are read to their end", async () => {
  const bytes = Buffer.alloc(2_000_000, "0123456789abcdef");
  await sandbox.files.write("big", new Blob([bytes]), { useOctetStream: true });
  assert.ok(Buffer.from(await sandbox.files.read("big", { format: "bytes" })).equals(bytes));
  assert.match(await sandbox.files.read("/proc/version"), /Linux/);
});

test("a new file written through the API is three events: create, chmod, write", async () => {
  await sandbox.files.makeDir("watched");
  const seen: string[] = [];
  const watcher = await sandbox.files.watchDir(
    "watched",
    ({ name, type }) => void seen.push(`${name} ${type}`),
  );
  await sandbox.files.write("watched/x", "1");
  await eventually(() => assert.deepEqual(seen, ["x create", "x chmod", "x write"]));
  await watcher.stop();
});

test("a terminal echoes, resizes and ends", async () => {
  let output = "";
  const terminal = await sandbox.pty.create({
    cols: 80,
    rows: 24,
    onData: (data) => void (output += Buffer.from(data).toString()),
  });
  await sandbox.pty.resize(terminal.pid, { cols: 100, rows: 30 });
  await sandbox.pty.sendInput(terminal.pid, Buffer.from("stty size; exit\n"));
  await terminal.wait().catch(() => undefined);
  assert.match(output, /30 100/);
});

test("without the token nothing is done, and signed URLs carry their own right", async () => {
  await sandbox.files.write("signed.txt", "secret");
  const route = { "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": "49983" };
  const get = (url: string) => fetch(url, { headers: route });
  assert.equal((await get(`${world.url}/files?path=signed.txt`)).status, 401);
  const signed = await sandbox.downloadUrl("signed.txt", { user: "user", useSignatureExpiration: 60 });
  assert.equal(await (await get(signed)).text(), "secret");
  assert.equal((await get(signed.replace("signed.txt", "other.txt"))).status, 401);
  assert.equal(
    (
      await fetch(`${world.url}/process.Process/List`, {
        method: "POST",
        headers: { ...route, "content-type": "application/json" },
        body: "{}",
      })
    ).status,
    401,
  );
});

test("a port is private, and reached with the traffic token", async () => {
  await sandbox.commands.run(
    "mkdir -p /tmp/www && echo page > /tmp/www/index.html && httpd -p 8000 -h /tmp/www",
    { user: "root" },
  );
  const route = { "E2b-Sandbox-Id": sandbox.sandboxId, "E2b-Sandbox-Port": "8000" };
  assert.equal((await fetch(world.url, { headers: route })).status, 403);
  const token = sandbox.trafficAccessToken ?? "";
  const answer = await fetch(world.url, { headers: { ...route, "e2b-traffic-access-token": token } });
  assert.equal(await answer.text(), "page\n");
  const closed = await fetch(world.url, {
    headers: { ...route, "E2b-Sandbox-Port": "8001", "e2b-traffic-access-token": token },
  });
  const { message, port } = (await closed.json()) as { message: string; port: number };
  assert.deepEqual(
    [closed.status, message, port],
    [502, "The sandbox is running but port is not open", 8001],
  );
});

test("requests of the code interpreter reach the kernel server of the sandbox", async () => {
  const interpreter = await CodeInterpreter.connect(sandbox.sandboxId, { ...world.connection, ...slow });
  const line = JSON.stringify({ type: "result", text: "2", is_main_result: true });
  const answer = `HTTP/1.1 200 OK\\r\\nContent-Length: ${line.length + 1}\\r\\nConnection: close\\r\\n\\r\\n${line}\\n`;
  const script = `#!/bin/bash\nwhile read -r line && [ "$line" != $'\\r' ]; do :; done\nprintf '${answer}'\n`;
  await sandbox.files.write("/tmp/kernel", script);
  await sandbox.commands.run("chmod 755 /tmp/kernel");
  await sandbox.commands.run("nc -ll -p 49999 -e /tmp/kernel", { background: true, timeoutMs: 0 });
  await eventually(async () => assert.equal((await interpreter.runCode("1+1")).text, "2"));
});

test("what is not a request is refused, and the sandbox goes on", async () => {
  const token = (sandbox as unknown as { readonly envdAccessToken?: string }).envdAccessToken ?? "";
  const headers = {
    "E2b-Sandbox-Id": sandbox.sandboxId,
    "E2b-Sandbox-Port": "49983",
    "X-Access-Token": token,
  };
  const post = (path: string, type: string, body: Uint8Array | string) =>
    fetch(`${world.url}${path}`, { method: "POST", headers: { ...headers, "content-type": type }, body });
  const huge = Buffer.from([0, 0x7f, 0xff, 0xff, 0xff]);
  const framed = await (await post("/process.Process/Start", "application/connect+json", huge)).text();
  assert.match(framed, /"error"/);
  assert.equal((await post("/process.Process/Start", "text/plain", "x")).status, 415);
  assert.equal((await post("/process.Process/List", "application/json", "{")).status, 400);
  assert.equal((await post("/init", "application/json", "{}")).status, 404);
  assert.equal((await post("/files?path=a", "application/octet-stream", "")).status, 200);
  const gzip = { ...headers, "content-type": "application/octet-stream", "content-encoding": "gzip" };
  const bomb = await fetch(`${world.url}/files?path=bomb`, {
    method: "POST",
    headers: gzip,
    body: gzipSync(Buffer.alloc(2 ** 27)).subarray(0, 1_000),
  });
  assert.equal(bomb.status, 400);
  assert.equal((await sandbox.commands.run("echo still here")).stdout, "still here\n");
});

test("pause keeps memory, processes and files; a request without autoResume does not wake it", async () => {
  const process = await sandbox.commands.run("sleep 100000", { background: true, timeoutMs: 0 });
  await sandbox.files.write("kept", "as it was");
  assert.equal(await sandbox.pause(slow), true);
  assert.equal(await sandbox.isRunning(), false);
  assert.equal(await sandbox.pause(slow), false);
  assert.equal((await sandbox.getInfo()).state, "paused");
  sandbox = await Sandbox.connect(sandbox.sandboxId, { ...world.connection, ...slow, ...life });
  assert.equal(await sandbox.files.read("kept"), "as it was");
  assert.ok((await sandbox.commands.list()).some(({ pid }) => pid === process.pid));
});

test("a process outlives the gateway that started it", async () => {
  const other = await world.newGateway();
  const there = { ...world.connection, apiUrl: other.server.url, sandboxUrl: other.server.url };
  const same = await Sandbox.connect(sandbox.sandboxId, { ...there, ...slow, ...life });
  const process = await same.commands.run("sleep 5; echo done", { background: true, timeoutMs: 0 });
  const cut = process.wait().catch((error: unknown) => error);
  other.server.server.closeAllConnections(); // as if it had been killed
  assert.ok((await cut) instanceof Error);
  const here = await sandbox.commands.connect(process.pid);
  assert.equal((await here.wait()).stdout, "done\n");
});

test("a fork has memory and files of its own, and a token of its own; the source goes on", async () => {
  await sandbox.files.write("shared", "before");
  const process = await sandbox.commands.run("sleep 100000", { background: true, timeoutMs: 0 });
  const [fork] = await sandbox.fork({ ...slow, ...life });
  assert.ok(fork && "sandboxId" in fork, JSON.stringify(fork));
  assert.notEqual(fork.sandboxId, sandbox.sandboxId);
  assert.equal(await fork.files.read("shared"), "before");
  assert.ok((await fork.commands.list()).some(({ pid }) => pid === process.pid));
  await fork.files.write("shared", "of the fork");
  assert.equal(await sandbox.files.read("shared"), "before");
  assert.equal(await fork.kill(), true);
});

test("a snapshot outlives its sandbox and starts others; deleting it twice says so", async () => {
  await sandbox.files.write("saved", "in the snapshot");
  const { snapshotId } = await sandbox.createSnapshot({ ...slow, name: "mine" });
  assert.equal(snapshotId, `${world.namespace}/mine:default`);
  const listed = await Sandbox.listSnapshots({
    ...world.connection,
    sandboxId: sandbox.sandboxId,
  }).nextItems();
  assert.deepEqual(
    listed.map((each) => each.snapshotId),
    [snapshotId],
  );
  const copy = await Sandbox.create(snapshotId, { ...world.connection, ...slow, ...life });
  assert.equal(await copy.files.read("saved"), "in the snapshot");
  assert.equal(await copy.kill(), true);
  const remove = () => Sandbox.deleteSnapshot(snapshotId, world.connection);
  assert.deepEqual(
    [await remove(), await eventually(async () => ((await remove()) ? assert.fail("still there") : false))],
    [true, false],
  );
});

test("a request wakes a sandbox that was made so, and many requests wake it once", async () => {
  const lifecycle = { onTimeout: "pause", autoResume: true } as const;
  const sleeper = await Sandbox.create({ ...world.connection, ...slow, ...life, lifecycle });
  await sleeper.commands.run("echo page > /tmp/index.html && httpd -p 8000 -h /tmp", { user: "root" });
  await sleeper.pause(slow);
  const headers = {
    "E2b-Sandbox-Id": sleeper.sandboxId,
    "E2b-Sandbox-Port": "8000",
    "e2b-traffic-access-token": sleeper.trafficAccessToken ?? "",
  };
  const answers = await Promise.all(
    Array.from({ length: count({ small: 8, full: 50 }) }, () => fetch(world.url, { headers })),
  );
  const seen = await Promise.all(answers.map(async (each) => `${each.status} ${await each.text()}`));
  assert.deepEqual(new Set(seen), new Set(["200 page\n"]));
  assert.equal(await sleeper.kill(), true);
});

test("another tenant does not see it, and a key that was revoked is no key", async () => {
  await using foreign = await cluster.newNamespace();
  const apiKey = await world.newKey(foreign.name);
  const connection = { ...world.connection, apiKey };
  await assert.rejects(Sandbox.getInfo(sandbox.sandboxId, connection), current.SandboxNotFoundError);
  assert.equal(await Sandbox.kill(sandbox.sandboxId, connection), false);
  assert.deepEqual(await Sandbox.list(connection).nextItems(), []);
  const deleted = await cluster.kubectl(["delete", "secret", "cocoon-apikey-test", "-n", foreign.name]);
  assert.equal(deleted.code, 0, deleted.stderr);
  await eventually(() => assert.rejects(Sandbox.list(connection).nextItems(), current.AuthenticationError));
});

test("a ServiceAccount token works as a key, with that account's rights", async () => {
  const made = await cluster.kubectl(["create", "token", "cocoon-sandbox", "-n", world.namespace]);
  const connection = { ...world.connection, apiKey: made.stdout.trim() };
  assert.equal((await Sandbox.getInfo(sandbox.sandboxId, connection)).sandboxId, sandbox.sandboxId);
});

test("a token of another namespace names this one, and does what its account may do here", async () => {
  await using home = await cluster.newNamespace();
  const ask = async (args: readonly string[]) => {
    const done = await cluster.kubectl(args);
    assert.equal(done.code, 0, done.stderr);
    return done.stdout.trim();
  };
  const there = ["-n", world.namespace];
  await ask(["create", "serviceaccount", "ann", "-n", home.name]);
  const token = await ask(["create", "token", "ann", "-n", home.name]);
  const connection = { ...world.connection, apiKey: `${world.namespace}:${token}` };
  await assert.rejects(Sandbox.list(connection).nextItems(), /403.*may not get cocoonsets/);
  const rules = ["--verb=get,create", "--resource=cocoonsets.cocoonset.cocoonstack.io,pods/exec"];
  await ask(["create", "role", "ann", ...rules, ...there]);
  await ask(["create", "rolebinding", "ann", "--role=ann", `--serviceaccount=${home.name}:ann`, ...there]);
  // A refusal is believed for some seconds.
  await eventually(
    async () => assert.equal((await Sandbox.getInfo(sandbox.sandboxId, connection)).state, "running"),
    { timeoutMs: 60_000, intervalMs: 1_000 },
  );
  await assert.rejects(Sandbox.kill(sandbox.sandboxId, connection), /403.*may not delete cocoonsets/);
});

test("usage is measured over time, by the guest itself", async () => {
  const points = await eventually(
    async () => {
      const all = await sandbox.getMetrics();
      assert.ok(all.length >= 3, `${all.length} points`);
      return all;
    },
    { timeoutMs: 60_000, intervalMs: 2_000 },
  );
  const times = points.map(({ timestamp }) => timestamp.getTime());
  assert.deepEqual(
    times,
    times.toSorted((left, right) => left - right),
  );
  assert.ok(points.every(({ memTotal, cpuCount }) => memTotal > 0 && cpuCount >= 1));
  const [first = 0] = times;
  const early = await sandbox.getMetrics({ end: new Date(first) });
  assert.ok(early.length >= 1 && early.every(({ timestamp }) => timestamp.getTime() <= first));
  const many = await fetch(`${world.url}/sandboxes/metrics?sandbox_ids=${sandbox.sandboxId}`, {
    headers: { "X-API-KEY": world.key },
  });
  const { sandboxes } = (await many.json()) as { sandboxes: Record<string, { memTotal: number }> };
  assert.ok((sandboxes[sandbox.sandboxId]?.memTotal ?? 0) > 0);
});

test("what is not offered is refused by name, never ignored", async () => {
  const create = (options: object) => Sandbox.create({ ...world.connection, ...options });
  await assert.rejects(
    create({ network: { denyOut: ["10.0.0.0/8"] } }),
    /network.denyOut: the network of the nodes cannot enforce it/,
  );
  await assert.rejects(create({ allowInternetAccess: false }), /allow_internet_access: the network/);
  await assert.rejects(create({ network: { maskRequestHost: "x" } }), /network.maskRequestHost: not offered/);
  await assert.rejects(Sandbox.create("no-such-template", world.connection), /404/);
  const secrets = await fetch(`${world.url}/secrets`, { headers: { "X-API-KEY": world.key } });
  assert.deepEqual([secrets.status, ((await secrets.json()) as { code: number }).code], [501, 501]);
});

test("egress rules are a NetworkPolicy of the sandbox where nodes enforce it, replaced as a whole", async () => {
  const labelled = await cluster.kubectl(["label", "node", "--all", `${nodeLabel.networkPolicy}=enforced`]);
  assert.equal(labelled.code, 0, labelled.stderr);
  const read = async () => {
    const name = `networkpolicy/${sandbox.sandboxId}-egress`;
    const shown = await cluster.kubectl(["get", name, "-n", world.namespace, "-o", "json"]);
    if (shown.code !== 0) return shown.stderr;
    const policy = JSON.parse(shown.stdout) as {
      metadata: { ownerReferences: { name: string }[] };
      spec: { egress: unknown };
    };
    return [policy.metadata.ownerReferences.map(({ name: owner }) => owner), policy.spec.egress];
  };
  // That nodes cannot was believed for some seconds.
  await eventually(() => sandbox.updateNetwork({ denyOut: ["10.0.0.0/8"], allowOut: ["10.0.0.7"] }), {
    timeoutMs: 60_000,
    intervalMs: 1_000,
  });
  const open = { ipBlock: { cidr: "0.0.0.0/0", except: ["10.0.0.0/8"] } };
  const own = [sandbox.sandboxId];
  assert.deepEqual(await read(), [own, [{ to: [open, { ipBlock: { cidr: "10.0.0.7/32" } }] }]]);
  await sandbox.updateNetwork({ allowInternetAccess: false });
  // No rule: nothing is allowed.
  assert.deepEqual(await read(), [own, undefined]);
  await sandbox.updateNetwork({});
  assert.match(String(await read()), /not found/);
  await cluster.kubectl(["label", "node", "--all", `${nodeLabel.networkPolicy}-`]);
});

test("setTimeout moves the end, and the sandbox is gone within seconds of it", async () => {
  const running = sandbox.commands.run("sleep 600", { timeoutMs: 0 }).catch((error: unknown) => error);
  await sandbox.setTimeout(3_000);
  const ended = await running;
  assert.ok(ended instanceof current.TimeoutError, String(ended));
  assert.equal(await sandbox.isRunning(), false);
  assert.equal(await sandbox.kill(), false);
});

for (const [version, sdk] of [
  ["2.45", older],
  ["2.50", middle],
] as const)
  test(`SDK ${version}: create, run, files, kill`, async () => {
    const made = await (sdk as unknown as typeof current).Sandbox.create({
      ...world.connection,
      ...slow,
      ...life,
    });
    assert.equal((await made.commands.run("echo hi")).stdout, "hi\n");
    await made.files.write("a", "b");
    assert.equal(await made.files.read("a"), "b");
    assert.equal(await made.kill(), true);
  });
