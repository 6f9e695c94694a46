/**
 * The whole platform on one machine, with real machines in it, as a newcomer uses it: what README and the first pages
 * say is typed here. One platform for all of it, because bringing one up takes a while.
 */
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { markedProcesses } from "@cocoon/controlplane";
import { count, eventually, requireRoot, runCommand, seededRandom, testSeed, tier } from "@cocoon/testkit";
import { usePythonSdk } from "./agent-sandbox.ts";
import { runDocument } from "./documented-commands.ts";
import {
  assertAddressFollows,
  assertPolicyHolds,
  assertReachable,
  listNamespaces,
  withPeer,
} from "./cluster-network.ts";
import { newHome, npm, personalEnvironment, root } from "./home.ts";
import { convergeMs, machineProcesses, openPlatform } from "./platform.ts";
import { pullThePlugWhileFallingAsleep } from "./plug.ts";

test("one platform, from nothing to nothing", { timeout: 40 * 60_000 }, async (t) => {
  await using state = await newHome();
  const home = state.path;
  requireRoot("give machines a network of their own");
  const env = await personalEnvironment(home);
  // A step stands on the one before it: when that failed there is nothing to learn from the rest.
  let broken = false;
  const step = (name: string, work: () => Promise<void>) =>
    t.test(name, { skip: broken && "the step before it failed" }, async () => {
      broken = true;
      await work();
      broken = false;
    });

  await step("every command line of README", async () => {
    await runDocument("README.md", env);
  });
  const platform = await openPlatform(home);
  const { kubectl, inGuest } = platform;

  const firstPage = "docs/getting-started.md";
  await step("every command line of the first page but its last, which stops everything", async () => {
    await runDocument(firstPage, env, [0, -1]);
    assert.equal((await npm(home, "doctor")).code, 0);
  });

  // Nothing stands on this one.
  await t.test("the reference of metrics names what the parts export, and nothing else", async () => {
    const reference = await readFile(join(root, "docs/reference/metrics.md"), "utf8");
    const { ports } = JSON.parse(await readFile(join(home, "parts", "parts.json"), "utf8")) as Ports;
    for (const [part, port] of Object.entries(metricPorts)) {
      const section = reference.split(`\n## ${part}\n`)[1]?.split("\n## ")[0] ?? "";
      const documented = [...section.matchAll(/^\| `(\w+)`/gm)]
        .map((match) => match[1] ?? "")
        .filter((name) => !notOnUp[part]?.includes(name));
      const answer = await fetch(`http://127.0.0.1:${ports[port]}/metrics`);
      assert.equal(answer.status, 200, part);
      const exported = [...(await answer.text()).matchAll(/^# TYPE (\w+)/gm)].map((match) => match[1] ?? "");
      const ours = exported.filter((name) => !/^(process|nodejs)_|^cocoon_build_info$/.test(name));
      assert.deepEqual(ours.toSorted(), documented.toSorted(), part);
    }
  });

  await step("ssh logs in with a key that was given by exec, and knows the machine again", async () => {
    const key = join(env["TMPDIR"] ?? "", "key");
    const made = await runCommand("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", key]);
    assert.equal(made.code, 0, made.stderr);
    const publicKey = await readFile(`${key}.pub`, "utf8");
    await inGuest(
      "demo-0",
      `umask 77; mkdir -p ~/.ssh; echo '${publicKey.trim()}' >> ~/.ssh/authorized_keys`,
    );
    const ssh = (...words: string[]) =>
      npm(home, "cocoonctl", "--", "ssh", "-i", key, "demo-0", "--", ...words);
    const first = await ssh("hostname");
    assert.deepEqual([first.code, first.stdout], [0, "vk-default-demo-0\n"], first.stderr);
    assert.match(first.stderr, /Permanently added 'demo-0\./);
    const second = await ssh("sh", "-c", "'exit 7'");
    assert.deepEqual([second.code, second.stdout, second.stderr], [7, "", ""]);
    assert.ok(existsSync(join(home, "known_hosts")));
    await Promise.all([rm(key), rm(`${key}.pub`)]);
  });

  await step("machines reach each other on both nodes, Services and the API server by name", async () => {
    await withPeer(platform, async () => {
      await assertReachable(platform);
      if (tier() !== "full") return;
      await assertPolicyHolds(platform);
      await assertAddressFollows(platform);
    });
  });

  await step(
    "a machine made by name and image alone runs, and leaves a snapshot when it is deleted",
    async () => {
      const cocoonctl = (...words: string[]) => npm(home, "cocoonctl", "--", ...words);
      const images = await cocoonctl("images");
      assert.match(images.stdout, /^cocoon-demo +built-in +run /m, images.stderr);
      const created = await cocoonctl("create", "a1", "--image", "cocoon-demo");
      assert.equal(created.code, 0, created.stderr + created.stdout);
      assert.match(
        await kubectl("get", "cocoonset.cocoonset.cocoonstack.io/a1", "-o", "json"),
        /"mode": "run"/,
      );
      assert.equal(await inGuest("a1-0", "hostname"), "vk-default-a1-0\n");
      await kubectl(
        "delete",
        "cocoonset.cocoonset.cocoonstack.io/a1",
        "--wait=true",
        `--timeout=${convergeMs}ms`,
      );
      const left = await cocoonctl("snapshot", "ls", "a1");
      assert.match(left.stdout, /^vk-default-a1-0 +latest +sha256:/m, left.stderr);
      const removed = await cocoonctl("snapshot", "rm", "a1-0", "latest");
      assert.deepEqual(
        [removed.code, removed.stdout],
        [0, "removed vk-default-a1-0:latest\n"],
        removed.stderr,
      );
      assert.match((await cocoonctl("snapshot", "ls", "a1")).stdout, /There are no snapshots of a1/);
    },
  );

  await step("exec and ssh wake a machine that sleeps, where they are asked to", async () => {
    const cocoonctl = (...words: string[]) => npm(home, "cocoonctl", "--", ...words);
    await inGuest("demo-0", "echo kept > /tmp/kept");
    assert.equal((await cocoonctl("suspend", "demo", "--timeout", "10m")).code, 0);
    const refused = await cocoonctl("exec", "demo", "--", "true");
    assert.notEqual(refused.code, 0);
    const woken = await cocoonctl("exec", "--wake", "demo", "--", "cat", "/tmp/kept");
    assert.deepEqual([woken.code, woken.stdout], [0, "kept\n"], woken.stderr);
  });

  await step("the plug is pulled while machines fall asleep, and nothing is lost", async () => {
    const random = seededRandom(testSeed());
    const moments = ["recorded", ...[1, 2, 3].map(() => Math.round(random() * sleepMs))] as const;
    for (const [index, after] of moments.slice(0, count({ small: 1, full: 4 })).entries()) {
      const kept = await pullThePlugWhileFallingAsleep(platform, { round: `round-${index}`, after });
      const when = after === "recorded" ? "when a snapshot was recorded" : `after ${after} ms`;
      t.diagnostic(`plug pulled ${when}; memory kept: ${kept.join(", ") || "none"}`);
    }
  });

  let router = "";
  await step("up --metrics-server --legacy --agent-sandbox adds them to a platform that runs", async () => {
    const before = new Set(machineProcesses(home));
    const more = await npm(home, "up", "--", "--metrics-server", "--legacy", "--agent-sandbox");
    assert.equal(more.code, 0, more.stderr + more.stdout);
    router = /api_url="([^"]+)"/.exec(more.stdout)?.[1] ?? "";
    assert.deepEqual(new Set(machineProcesses(home)), before, "machines go on");
    assert.match((await npm(home, "status")).stdout, /^metrics-server +ready /m);
  });

  await step("kubectl top shows what nodes and machines use", async () => {
    const busy = "sh -c 'echo $$ >/tmp/busy; while :; do :; done' >/dev/null 2>&1 </dev/null &";
    await inGuest("demo-0", busy);
    const measured = async () => {
      assert.match(await kubectl("top", "pod", "demo-0"), /^demo-0 +[1-9]\d*m +[1-9]\d*Mi/m);
      assert.match(await kubectl("top", "node", "cocoon-1"), /^cocoon-1 +[1-9]\d*m +\d+% +[1-9]\d*Mi/m);
    };
    await eventually(measured, { timeoutMs: convergeMs, intervalMs: 2_000 });
    await inGuest("demo-0", "kill $(cat /tmp/busy)");
  });

  await step(
    "the Python SDK of agent-sandbox suspends a Sandbox with its memory, and resumes it on another node",
    () => usePythonSdk(platform, router),
  );

  await step("an object of the older API is a machine, too", async () => {
    const file = join(dirname(home), "legacy.json");
    await writeFile(file, JSON.stringify(legacySet));
    await kubectl("apply", "-f", file);
    const running = "--for=jsonpath={.status.phase}=Running";
    await kubectl("wait", "cocoonset.cocoon.cis/old", running, `--timeout=${convergeMs}ms`);
    assert.equal(await inGuest("old-0", "hostname"), "vk-default-old-0\n");
    assert.match(
      await kubectl("get", "pod", "old-0", "-o", "json"),
      /"cocoon\.cis\/vm-name": "vk-default-old-0"/,
    );
  });

  await step("the last command line of the first page stops everything", async () => {
    assert.notDeepEqual(await listNamespaces(home), []);
    await runDocument(firstPage, env, [-1]);
    assert.deepEqual([markedProcesses(home), machineProcesses(home)], [[], []]);
    assert.deepEqual(await listNamespaces(home), []);
  });

  if (tier() === "full")
    await step("up again boots the machines from their disks", async () => {
      const again = await npm(home, "up");
      assert.equal(again.code, 0, again.stderr + again.stdout);
      const kept = async () =>
        assert.equal(await inGuest("demo-0", "cat /root/note"), "hello from outside\n");
      await eventually(kept, { timeoutMs: convergeMs, intervalMs: 500 });
    });

  await step("a wipe leaves nothing behind", async () => {
    assert.equal((await npm(home, "down", "--", "--wipe")).code, 0);
    assert.deepEqual([markedProcesses(home), machineProcesses(home), existsSync(home)], [[], [], false]);
    // npm and kubectl keep caches of their own; the note is the reader's.
    const others = (await readdir(env["HOME"] ?? "")).filter((name) => ![".kube", ".npm"].includes(name));
    assert.deepEqual(others, []);
    const left = await readdir(env["TMPDIR"] ?? "", { recursive: true, withFileTypes: true });
    const files = left
      .filter((entry) => !entry.isDirectory() && !entry.parentPath.includes("node-compile-cache"))
      .map((entry) => entry.name);
    assert.deepEqual(files, ["note"]);
  });
});

/** About as long as the demo set needs to fall asleep here: the plug is pulled somewhere within. */
const sleepMs = 6_000;

const metricPorts: Readonly<Record<string, string>> = {
  "vk-cocoon": "node1Health",
  "cocoon-operator": "operatorMetrics",
  "cocoon-webhook": "webhookHealth",
  "cocoon-colocation": "colocationMetrics",
  epoch: "registryHealth",
};

/** `up` runs one operator, without leader election. */
const notOnUp: Readonly<Record<string, readonly string[]>> = {
  "cocoon-operator": ["leader_election_master_status"],
};

interface Ports {
  readonly ports: Readonly<Record<string, number>>;
}

const legacySet = {
  apiVersion: "cocoon.cis/v1alpha1",
  kind: "CocoonSet",
  metadata: { name: "old", namespace: "default" },
  spec: {
    agent: {
      image: "cocoon-demo",
      mode: "run",
      replicas: 0,
      storage: "256Mi",
      resources: { cpu: "100m", memory: "128Mi" },
    },
  },
};
