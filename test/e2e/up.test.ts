/** The commands of README as a newcomer runs them, in a state directory of the test's own. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { markedProcesses } from "@cocoon/controlplane";
import { eventually, killChild, ownControlPlane, temporaryDirectory } from "@cocoon/testkit";
import { newHome, npm, root } from "./home.ts";

/** Only the control plane, which these tests are about. */
const bare = ["up", "--", "--no-parts"] as const;

/** etcd, kube-apiserver, kube-controller-manager, kube-scheduler, and the supervisor that restarts them. */
const bareProcesses = 5;

test("up, look, up again, kill a part, restart, down, up with the data, wipe", async () => {
  await using state = await newHome();
  const home = state.path;

  const first = await npm(home, ...bare);
  assert.equal(first.code, 0, first.stderr + first.stdout);
  assert.match(first.stdout, /Cocoon is up: Kubernetes API at https:\/\/127\.0\.0\.1:\d+/);
  const pids = () =>
    markedProcesses(home)
      .map((process) => `${process.name} ${process.identity.pid}`)
      .toSorted();
  const before = pids();
  assert.equal(before.length, bareProcesses, before.join("; "));

  const made = await npm(
    home,
    "cocoonctl",
    "--",
    "kubectl",
    "create",
    "configmap",
    "precious",
    "--from-literal=a=b",
  );
  assert.equal(made.code, 0, made.stderr);

  const again = await npm(home, ...bare);
  assert.equal(again.code, 0, again.stderr);
  assert.deepEqual(pids(), before, "up twice is a no-op");

  const status = await npm(home, "status");
  assert.equal(status.code, 0);
  assert.match(status.stdout, /kube-apiserver +ready +\d+/);
  assert.equal((await npm(home, "doctor")).code, 0);
  assert.match((await npm(home, "cocoonctl", "--", "kubeconfig")).stdout, /current-context: cocoon/);
  assert.match(
    (await npm(home, "logs", "--", "kube-apiserver", "-n", "2000")).stdout,
    /kube-apiserver|serving|Serving/,
  );
  const unknown = await npm(home, "logs", "--", "nothing");
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /there is no part "nothing"; the parts are etcd,/);

  const schedulerPid = () =>
    markedProcesses(home).find((each) => each.name === "kube-scheduler")?.identity.pid ?? 0;
  const killed = schedulerPid();
  process.kill(killed, "SIGKILL");
  await eventually(
    async () => {
      const recovered = await npm(home, "status");
      assert.match(recovered.stdout, /kube-scheduler +ready +\d+ +\S+ +\d+ MB +1 /);
      assert.equal(recovered.code, 0);
    },
    { timeoutMs: 60_000, intervalMs: 500 },
  );
  assert.notEqual(schedulerPid(), killed, "the supervisor started it again");
  const restarted = await npm(home, "cocoonctl", "--", "restart", "kube-scheduler");
  assert.equal(restarted.code, 0, restarted.stderr);
  assert.equal((await npm(home, "status")).code, 0);

  const down = await npm(home, "down");
  assert.equal(down.code, 0, down.stderr);
  assert.deepEqual(markedProcesses(home), []);
  assert.equal((await npm(home, "status")).code, 3);

  assert.equal((await npm(home, ...bare)).code, 0);
  const kept = await npm(
    home,
    "cocoonctl",
    "--",
    "kubectl",
    "get",
    "configmap",
    "precious",
    "-o",
    "jsonpath={.data.a}",
  );
  assert.equal(kept.stdout, "b", "data is kept across down and up");

  const wiped = await npm(home, "down", "--", "--wipe");
  assert.equal(wiped.code, 0, wiped.stderr);
  assert.equal(existsSync(home), false);
  assert.deepEqual(markedProcesses(home), []);
});

test("up that is killed or interrupted at any moment goes on at the next try", async () => {
  await using state = await newHome();
  const home = state.path;
  await killChild(await startUntil(home, "etcd"));

  const interrupted = await startUntil(home, "kube-apiserver");
  const exited = once(interrupted, "exit") as Promise<[number]>;
  let stderr = "";
  interrupted.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  interrupted.kill("SIGINT");
  const [code] = await exited;
  assert.equal(code, 130);
  assert.match(stderr, /Interrupted\. .*`up` goes on from here/);

  await killChild(await startUntil(home, "kube-scheduler"));
  const next = await npm(home, ...bare);
  assert.equal(next.code, 0, next.stderr + next.stdout);
  assert.equal(markedProcesses(home).length, bareProcesses, "one process for each part, none twice");
});

/** `up` under way: the process of that component has started. */
async function startUntil(home: string, component: string) {
  const up = spawn(
    join(root, "node_modules/.bin/node"),
    [join(root, "packages/cli/src/main.ts"), "up", "--no-parts"],
    { env: { ...process.env, COCOON_HOME: home }, stdio: ["ignore", "ignore", "pipe"] },
  );
  const isStarted = () => assert.ok(markedProcesses(home).some(({ name }) => name === component));
  await eventually(isStarted, { timeoutMs: 120_000 });
  return up;
}

test("bad input is one clear message and changes nothing", async () => {
  await using directory = await temporaryDirectory();
  const home = join(directory.path, "home");
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const port = (taken.address() as AddressInfo).port;

  const busy = await npm(home, ...bare, "--port", String(port));
  assert.equal(busy.code, 1);
  assert.match(
    busy.stderr,
    new RegExp(`port ${port} is in use by another program; choose another with --port`),
  );
  taken.close();

  const nonsense = await npm(home, ...bare, "--port", "http");
  assert.equal(nonsense.code, 2);
  assert.match(nonsense.stderr, /--port http is not a port number/);
  const unknownFlag = await npm(home, ...bare, "--prot", "1");
  assert.equal(unknownFlag.code, 2);
  assert.match(unknownFlag.stderr, /unknown option '--prot'/);

  assert.equal((await npm(home, "status")).code, 3);
  assert.deepEqual(markedProcesses(home), []);

  await mkdir(home, { recursive: true });
  await writeFile(join(home, "cluster.json"), "{broken");
  const damaged = await npm(home, ...bare);
  assert.equal(damaged.code, 1);
  assert.match(damaged.stderr, /cluster\.json is damaged; remove that one file/);

  const precious = join(directory.path, "precious");
  await mkdir(precious);
  await writeFile(join(precious, "photo"), "x");
  const wrong = await npm(precious, "down", "--", "--wipe");
  assert.equal(wrong.code, 1);
  assert.match(wrong.stderr, /does not look like a Cocoon directory/);
  assert.deepEqual(
    (await readdir(precious)).filter((name) => name !== "lock"),
    ["photo"],
  );
  assert.equal(await readFile(join(precious, "photo"), "utf8"), "x");
});

test("an existing cluster is used instead of starting one; a wrong one is one clear message", async () => {
  await using elsewhere = await ownControlPlane({ controllers: false });
  await using state = await newHome();
  const there = ["--kubeconfig", elsewhere.kubeconfigPath, "--context", "cocoon"];
  const used = await npm(state.path, "up", "--", ...there, "--no-parts");
  assert.equal(used.code, 0, used.stderr);
  assert.match(used.stdout, new RegExp(`Using the cluster at ${elsewhere.server} \\(Kubernetes v1\\.36`));
  const none = await elsewhere.kubectl(["get", "namespace", "cocoon-system"]);
  assert.match(none.stderr, /not found/);
  for (const attempt of ["first", "again"]) {
    const installed = await npm(state.path, "up", "--", ...there);
    assert.equal(installed.code, 0, `${attempt}: ${installed.stderr}`);
    assert.match(installed.stdout, /Cocoon is installed in the cluster at/);
  }
  const parts = await elsewhere.kubectl(["get", "deployments", "-A", "-o", "name"]);
  for (const part of ["cocoon-operator", "cocoon-webhook", "cocoon-colocation"])
    assert.match(parts.stdout, new RegExp(`^deployment\\.apps/${part}$`, "m"));
  assert.deepEqual(markedProcesses(state.path), []);
  assert.match((await npm(state.path, "status")).stdout, new RegExp(elsewhere.server));
  assert.equal((await npm(state.path, "doctor")).code, 0);
  assert.equal((await npm(state.path, "cocoonctl", "--", "kubectl", "get", "namespace", "default")).code, 0);

  const context = await npm(
    state.path,
    "up",
    "--",
    "--kubeconfig",
    elsewhere.kubeconfigPath,
    "--context",
    "nowhere",
  );
  assert.equal(context.code, 1);
  assert.match(context.stderr, /nowhere.*cocoon/s, "the known contexts are named");
  const broken = join(state.path, "broken");
  await writeFile(broken, "clusters: 7");
  const malformed = await npm(state.path, "up", "--", "--kubeconfig", broken);
  assert.equal(malformed.code, 1);
  assert.match(malformed.stderr, /broken/);
  await elsewhere.stop("kube-apiserver", { hard: true });
  const away = await npm(state.path, "up", "--", "--kubeconfig", elsewhere.kubeconfigPath);
  assert.equal(away.code, 1);
  assert.match(away.stderr, /cannot use the cluster at https:\/\/127\.0\.0\.1:\d+/);
});

test("every executable prints its version, revision and build time", async () => {
  const version = await npm("/nonexistent", "cocoonctl", "--", "--version");
  assert.match(
    version.stdout,
    /^cocoonctl \d+\.\d+\.\d+ \(revision [0-9a-f]{12}(-dirty)?, built \d{4}-\d\d-\d\dT.*\)$/m,
  );
});
