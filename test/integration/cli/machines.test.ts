/** cocoonctl as people use it: on a real API server, scheduler and registry, with the operator and fake kubelets. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { suite, test } from "node:test";
import { annotation } from "@cocoon/contract";
import { nodes, pods } from "@cocoon/kube";
import {
  eventually,
  runCommand,
  sharedControlPlane,
  temporaryDirectory,
  tier,
  type CommandResult,
} from "@cocoon/testkit";
import { installCrds } from "../contract/install-crds.ts";
import { openWorld, buildSpec, type TestWorld } from "../operator/world.ts";

const cluster = await sharedControlPlane();
await installCrds(cluster);

/** Answers that unit tests show too are asked for in the full tier: every question starts a program. */
const thorough = tier() === "full";

const root = join(import.meta.dirname, "../../..");
const main = join(root, "packages/cli/bin/cocoonctl.mjs");

interface Tool {
  readonly world: TestWorld;
  /** Runs a command in the world's namespace; whatever it exits with. */
  readonly run: (...args: readonly string[]) => Promise<CommandResult>;
  /** The same, and it must succeed: its standard output. */
  readonly ok: (...args: readonly string[]) => Promise<string>;
  /** The same, and it must fail so: its standard error. */
  readonly fails: (code: number, ...args: readonly string[]) => Promise<string>;
}

/** The snapshot that the sets of these tests start from, so that `create` finds out that it is one. */
const baseImage = "team/base:v1";

async function toolFor(world: TestWorld): Promise<Tool> {
  await world.kubelet.pushCopy("team/base", "v1");
  const env = {
    OCI_REGISTRY: world.server.url,
    EPOCH_TOKEN: await world.server.createToken({ name: "cli" }),
    COCOON_HOME: join(root, "no-such-platform"),
    PATH: `${join(cluster.binaries.kubectl, "..")}:${process.env["PATH"]}`,
  };
  const run = (...args: readonly string[]) =>
    runCommand(process.execPath, [main, ...insertCluster(args, world)], { env });
  return {
    world,
    run,
    ok: async (...args) => {
      const { code, stdout, stderr } = await run(...args);
      assert.equal(code, 0, `${args.join(" ")}: ${stderr}${stdout}`);
      return stdout;
    },
    fails: async (wanted, ...args) => {
      const { code, stdout, stderr } = await run(...args);
      assert.equal(code, wanted, `${args.join(" ")}: ${stderr}${stdout}`);
      return stderr;
    },
  };
}

/** Before a "--", behind which the arguments are the guest's. */
function insertCluster(args: readonly string[], { namespace }: TestWorld): string[] {
  const flags = ["--kubeconfig", cluster.kubeconfigPath, "-n", namespace];
  const at = args.indexOf("--");
  return at < 0 ? [...args, ...flags] : [...args.slice(0, at), ...flags, ...args.slice(at)];
}

interface Row {
  readonly name: string;
  readonly state: string;
  readonly node: string;
  readonly ip: string;
  readonly memory: string;
  readonly snapshot: string;
}

async function readRow({ ok }: Tool, name: string): Promise<Row> {
  return JSON.parse(await ok("get", "vms", name, "-o", "json")) as Row;
}

suite("cocoonctl", { concurrency: 3 }, () => {
  test("a set is made, looked at, scaled, put to sleep and woken", async () => {
    await using world = await openWorld(cluster);
    const tool = await toolFor(world);
    const { ok, fails } = tool;
    assert.match(await ok("get"), /There are no sets and no machines in namespace test-/);

    const flags = ["--image", baseImage, "--pool", world.pool, "--memory", "64Mi", "--replicas", "1"];
    const printed = await ok("create", "demo", ...flags, "--dry-run=server");
    assert.match(printed, /kind: CocoonSet\n/);
    assert.deepEqual(await world.podNames(), [], "a dry run makes nothing");
    const made = await ok("create", "demo", ...flags);
    assert.match(made, /demo: created\ndemo: running, 2 machines\n\nNext:\n {2}cocoonctl get demo -n /);
    const { agent } = (await world.set("demo")).spec;
    assert.deepEqual([agent.image, agent.mode, agent.replicas], [baseImage, "clone", 1]);
    assert.deepEqual(agent.resources?.requests, { memory: "64Mi" });
    assert.match(await fails(1, "create", "demo", ...flags), /there is a set demo in namespace .* already/);

    const table = await ok("get");
    assert.match(
      table,
      /^SET +PHASE +AGENTS +TOOLBOXES +ASLEEP +NODE +AGE\ndemo +Running +2\/2 +0\/0 +0 +\S+ +\d\S*\n/,
    );
    assert.match(
      table,
      /\nMACHINE +ROLE +STATE +NODE +IP +MEMORY +SNAPSHOT +AGE\ndemo-0 +main +ready +\S+ +10\.0\.0\.1 +64Mi +- +\d/,
    );
    if (thorough)
      assert.match(await ok("get", "demo", "-o", "wide"), new RegExp(`vk-${world.namespace}-demo-1 +vm-`));
    if (thorough) assert.equal(await ok("get", "-o", "name"), "cocoonset/demo\npod/demo-0\npod/demo-1\n");
    assert.match(
      await fails(1, "suspend", "dmeo"),
      /there is no set "dmeo" in namespace .*; did you mean demo\?/,
    );

    assert.match(await ok("scale", "demo", "2"), /demo: 1 -> 2 sub-agents\ndemo: running, 3 machines\n/);
    assert.deepEqual(await world.podNames(), ["demo-0", "demo-1", "demo-2"]);

    assert.match(await ok("hibernate", "demo-1"), /demo-1: asleep in sha256:[0-9a-f]{12}\n/);
    const asleep = await readRow(tool, "demo-1");
    assert.deepEqual([asleep.name, asleep.state, asleep.memory], ["demo-1", "asleep", "64Mi"]);
    assert.equal(asleep.snapshot, await world.digest(world.vmName("demo-1")));
    assert.match(await ok("get", "demo"), /demo-1 +sub-agent +asleep +\S+ +- +64Mi +sha256:[0-9a-f]{12} /);
    assert.match(
      await fails(1, "exec", "demo-1", "--", "true"),
      /demo-1 sleeps; wake it first: cocoonctl wake demo-1/,
    );
    assert.match(await fails(2, "hibernate", "demo"), /demo is a set of machines \(demo-0, demo-1, demo-2\)/);
    assert.match(await ok("wake", "demo-1"), /demo-1: awake\n/);
    assert.ok(world.kubelet.vms.has(world.vmName("demo-1")));

    assert.match(await ok("suspend", "demo"), /demo: suspended, 3 machines sleep\n/);
    assert.equal((await world.set("demo")).spec.suspend, true);
    assert.match(
      await fails(1, "wake", "demo-2"),
      /set demo is suspended; .* wake all of it with: cocoonctl resume/,
    );
    assert.match(
      await ok("snapshot", "ls", "demo"),
      new RegExp(`${world.vmName("demo-0")} +hibernate +sha256:`),
    );
    assert.match(await ok("resume", "demo"), /demo: running, 3 machines\n/);
    assert.equal(world.kubelet.vms.size, 3);
    const told = await ok("events", "demo");
    assert.match(told, /^LAST SEEN +TYPE +REASON +OBJECT +MESSAGE\n/);
    assert.match(told, /CocoonHibernation\/demo-1/);

    assert.match(await fails(1, "delete", "demo", "other"), /there is no set "other"/);
    assert.equal(world.kubelet.vms.size, 3, "a mistyped name deletes nothing");
    assert.match(await ok("delete", "demo"), /demo: deleted\n/);
    assert.deepEqual(await world.podNames(), []);
    assert.match(
      await ok("snapshot", "ls", "demo"),
      new RegExp(`${world.vmName("demo-0")} +latest +sha256:`),
    );
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("a machine that fell asleep by idleness is woken, as often as that happens", async () => {
    await using world = await openWorld(cluster);
    const { ok } = await toolFor(world);
    await world.apply("lazy", buildSpec(world, { idle: { after: "10m" } }));
    const vm = world.vmName("lazy-0");
    await eventually(() => assert.ok(world.kubelet.vms.has(vm)), { timeoutMs: 30_000 });
    const idleSince = (value: string | null) =>
      world.patch("lazy-0", { metadata: { annotations: { [annotation.idleSince]: value } } }, pods);
    assert.match(await ok("wake", "lazy-0"), /lazy-0: awake/);
    for (let night = 0; night < 2; night += 1) {
      await idleSince(new Date(Date.now() - 11 * 60_000).toISOString());
      await eventually(() => assert.ok(!world.kubelet.vms.has(vm)), { timeoutMs: 30_000 });
      await idleSince(null); // a kubelet removes it when the machine is used
      assert.match(await ok("wake", "lazy-0"), /lazy-0: awake/);
      assert.ok(world.kubelet.vms.has(vm));
    }
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("a main agent moves, a node is drained, and what is refused says why", async () => {
    await using world = await openWorld(cluster);
    const tool = await toolFor(world);
    const { ok, fails } = tool;
    await ok("create", "demo", "--image", baseImage, "--pool", world.pool);
    const from = (await world.pod("demo-0"))?.spec?.nodeName ?? "";
    const to = world.nodes.find((each) => each !== from) ?? "";
    assert.match(
      await fails(1, "migrate", "demo", `${to}x`),
      new RegExp(`no node "${to}x"; did you mean ${to}`),
    );
    assert.match(await ok("migrate", "demo", to), new RegExp(`demo-0: runs on ${to}\n`));
    assert.equal((await world.pod("demo-0"))?.spec?.nodeName, to);
    assert.equal((await world.set("demo")).spec.nodeName, to);
    assert.match(await ok("migrate", "demo-0", "--unpin"), /may run on any node/);
    assert.equal((await world.set("demo")).spec.nodeName, undefined);

    if (thorough)
      assert.match(await ok("drain", to, "--dry-run"), new RegExp(`would evict ${world.namespace}/demo-0`));
    assert.match(
      await ok("drain", to),
      new RegExp(`${to}: takes no new pods now\n${to}: drained; 1 machine left it\n`),
    );
    const { items } = await world.connection.list(pods, { namespace: world.namespace, signal: world.signal });
    assert.deepEqual(
      items.filter(({ spec }) => spec?.nodeName === to),
      [],
    );
    await world.reaches("demo", ({ phase, agents }) => {
      assert.equal(phase, "Running");
      assert.equal(agents?.[0]?.nodeName, from, "it woke on the other node");
    });
    assert.match(await ok("drain", to), /takes no new pods already\n.*: drained; 0 machines left it\n/);
    if (thorough)
      assert.match(
        await fails(1, "migrate", "demo", to),
        /takes no new pods; allow it first with: kubectl uncordon/,
      );
    await ok("uncordon", to);
    const node = await world.connection.get(nodes, { name: to }, { signal: world.signal });
    assert.equal(node.spec?.unschedulable ?? false, false);
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("waits end with exit code 4, and failures with their reason", async () => {
    await using world = await openWorld(cluster);
    const { ok, fails } = await toolFor(world);
    await ok("create", "demo", "--image", baseImage, "--pool", world.pool);
    world.kubelet.silent = true;
    const late = await fails(4, "suspend", "demo", "--timeout", "1s");
    assert.match(late, /demo: .*Suspending|demo: Running/, "progress, one line per change");
    assert.match(late, /not done after 1 s \(demo: .*\)\. The request was submitted and will continue/);
    assert.equal((await world.set("demo")).spec.suspend, true);
    if (thorough)
      assert.match(
        await fails(2, "suspend", "demo", "--timeout", "soon"),
        /--timeout soon: write a duration/,
      );
    const waits = spawn(process.execPath, [main, ...insertCluster(["suspend", "demo"], world)]);
    await once(waits.stderr, "data");
    waits.kill("SIGINT");
    assert.deepEqual(await once(waits, "close"), [130, null], "Ctrl-C ends the wait, not the request");
    world.kubelet.speak();
    assert.match(await ok("suspend", "demo"), /suspended/);
    await ok("resume", "demo", "--no-wait");
    await ok("resume", "demo");
    world.kubelet.failing.add(world.vmName("demo-0"));
    assert.match(
      await fails(1, "hibernate", "demo-0"),
      /demo-0: .*told to fail; the same command tries again/,
    );
    assert.match(await ok("get"), /demo-0: failed: told to fail\n/);
    world.kubelet.failing.clear();
    world.kubelet.speak();
    await ok("hibernate", "demo-0");
  });

  test("snapshots are listed, removed unless a machine is hibernated in them, and restored as a new set", async () => {
    await using world = await openWorld(cluster);
    const tool = await toolFor(world);
    const { ok, fails } = tool;
    const vm = world.vmName("demo-0");
    await world.apply("demo", buildSpec(world, {}, { resources: { requests: { memory: "64Mi" } } }));
    await ok("resume", "demo");
    await ok("suspend", "demo");
    assert.match(await fails(1, "snapshot", "rm", "demo", "hibernate"), /its only copy: it is not removed/);
    assert.notEqual(await world.digest(vm), undefined);
    await ok("resume", "demo");
    await world.kubelet.pushCopy(world.vmName("old-0"), "latest");
    assert.match(
      await ok("snapshot", "ls"),
      new RegExp(`${world.vmName("old-0")} +latest +sha256:\\S+ +- +\\d\\S* +taken when`),
    );
    if (thorough)
      assert.match(
        await fails(1, "snapshot", "restore", "old-0", "lates", "--as", "new"),
        /no snapshot "lates"; did you mean latest\?/,
      );
    const restored = await ok("snapshot", "restore", "old-0", "--as", "new", "--no-wait");
    assert.match(restored, new RegExp(`new: created from ${world.vmName("old-0")}:latest`));
    assert.deepEqual((await world.set("new")).spec.agent.from, { set: "old", slot: 0, tag: "latest" });
    await ok("snapshot", "rm", "old-0", "latest");
    assert.equal(await world.digest(world.vmName("old-0"), "latest"), undefined);
    if (thorough)
      assert.match(await fails(1, "snapshot", "rm", "old-0", "latest"), /has no snapshot "latest"/);

    // In place: the machine that is replaced leaves its own snapshot, and the new one starts from the old.
    await world.kubelet.pushCopy(vm, "v1");
    assert.match(
      await fails(2, "snapshot", "restore", "demo", "v1"),
      /name the target: --as NEWSET .* --in-place/,
    );
    await ok("snapshot", "restore", "demo", "v1", "--in-place", "--no-wait");
    await eventually(
      async () => {
        const pod = await world.pod("demo-0");
        assert.equal(pod?.metadata.annotations?.[annotation.image], `${vm}:v1`);
      },
      { timeoutMs: 60_000 },
    );
  });

  test("a platform that is down has an exit code of its own", async () => {
    await using home = await temporaryDirectory();
    const closed = cluster.kubeconfig.replace(/https:\/\/127\.0\.0\.1:\d+/, "https://127.0.0.1:1");
    await writeFile(join(home.path, "kubeconfig"), closed);
    await writeFile(join(home.path, "cluster.json"), "{}");
    const told = await runCommand(process.execPath, [main, "get", "--dir", home.path]);
    assert.equal(told.code, 3, told.stderr);
    assert.match(told.stderr, /is not running\. Start it with: npm run up/);
  });

  test("kubectl cocoon is the same program, in kubectl's cluster and words", async () => {
    await using world = await openWorld(cluster, { withoutOperator: true });
    await world.apply("demo", buildSpec(world));
    const path = `${join(root, "node_modules/.bin")}:${process.env["PATH"]}`;
    const told = await cluster.kubectl(["cocoon", "get", "-n", world.namespace], { env: { PATH: path } });
    assert.equal(told.code, 0, told.stderr);
    assert.match(told.stdout, /demo +Unknown +0\/1 +0\/0 +0 +- +\d+s\n/);
    assert.match(told.stdout, /demo: Unknown: the operator has not observed it yet; is it running\?/);
    const help = await cluster.kubectl(["cocoon", "suspend", "--help"], { env: { PATH: path } });
    assert.match(
      help.stdout,
      /Usage: kubectl cocoon suspend \[options\] <set\.\.\.>[\s\S]*Examples:\n {2}kubectl cocoon suspend demo\n/,
    );
    const typed = ["cocoon", "suspend", "-n", world.namespace, "de"];
    const candidates = await cluster.kubectl(["__complete", ...typed], { env: { PATH: path } });
    assert.match(candidates.stdout, /^demo\n:4\n/);
  });
});
