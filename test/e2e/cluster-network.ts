/** The network of a platform that root brought up, as its machines see it. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { eventually } from "@cocoon/testkit";
import { npm } from "./home.ts";
import { convergeMs, type Platform } from "./platform.ts";

const nodes = ["cocoon-1", "cocoon-2"] as const;
const patience = { timeoutMs: convergeMs, intervalMs: 1_000 };

/** Runs `use` with a machine `peer-0` on the node that `demo-0` is not on. */
export async function withPeer(platform: Platform, use: () => Promise<void>): Promise<void> {
  const { home, kubectl } = platform;
  const demoNode = await readPod(platform, "demo-0", "spec.nodeName");
  const node = nodes.find((each) => each !== demoNode) ?? "";
  const words = ["create", "peer", "--image", "cocoon-demo", "--node", node, "--snapshot-policy", "never"];
  const created = await npm(home, "cocoonctl", "--", ...words);
  assert.equal(created.code, 0, created.stderr + created.stdout);
  assert.equal(await readPod(platform, "peer-0", "spec.nodeName"), node);
  await use();
  await kubectl("delete", "cocoonset.cocoonset.cocoonstack.io/peer", `--timeout=${convergeMs}ms`);
}

/** By the name of a machine on the other node, by the name of a Service, and the API server by its own. */
export async function assertReachable({ kubectl, inGuest }: Platform): Promise<void> {
  await kubectl("expose", "pod", "peer-0", "--name=door", "--port=2200", "--target-port=22");
  const hasBanner = (target: string) =>
    eventually(async () => {
      // The pause keeps nc from ending before the answer is there.
      const said = await inGuest("demo-0", `sleep 5 | nc -w 10 ${target} | head -n 1`);
      assert.match(said, /^SSH-2\.0-/, target);
    }, patience);
  await hasBanner("peer-0.peer 22");
  await hasBanner("door.default.svc.cluster.local 2200");
  const api = "nc -w 10 kubernetes.default 443 </dev/null && echo reached";
  await eventually(async () => assert.equal(await inGuest("demo-0", api), "reached\n"), patience);
  await kubectl("delete", "service", "door");
}

/** A set that only its own machines may reach; taken back at the end. */
export async function assertPolicyHolds({ kubectl, inGuest }: Platform): Promise<void> {
  const isolate = (isolation: string | null) => {
    const patch = JSON.stringify({ spec: { network: isolation === null ? null : { isolation } } });
    return kubectl("patch", "cocoonset.cocoonset.cocoonstack.io/demo", "--type=merge", "-p", patch);
  };
  const knock = (from: string) =>
    inGuest(from, "nc -w 3 demo-0.demo 22 </dev/null >/dev/null 2>&1 && echo open || echo shut");
  const answers = async (expected: readonly [own: string, other: string]) =>
    assert.deepEqual([await knock("demo-1"), await knock("peer-0")], expected);
  await eventually(() => answers(["open\n", "open\n"]), patience);
  await isolate("Set");
  await eventually(() => answers(["open\n", "shut\n"]), patience);
  await isolate(null);
  await eventually(() => answers(["open\n", "open\n"]), patience);
}

/**
 * `peer-0` sleeps and wakes on the other node: when it is ready the guest has its new address, others reach it by its name, and a
 * connection from its old address has ended instead of hanging.
 */
export async function assertAddressFollows(platform: Platform): Promise<void> {
  const { home, inGuest } = platform;
  const before = await readPod(platform, "peer-0", "status.podIP");
  // Its input never ends: nc does only when the connection does.
  const hold = "exec 3<>/tmp/silence; nc demo-0.demo 22 <&3 >/tmp/banner 2>&1; touch /tmp/ended";
  await inGuest("peer-0", `mkfifo /tmp/silence; (${hold}) >/dev/null 2>&1 </dev/null &`);
  await eventually(async () => assert.match(await inGuest("peer-0", "cat /tmp/banner"), /^SSH-/), patience);
  const node = await readPod(platform, "demo-0", "spec.nodeName");
  const moved = await npm(home, "cocoonctl", "--", "migrate", "peer", node);
  assert.equal(moved.code, 0, moved.stderr + moved.stdout);
  const after = await readPod(platform, "peer-0", "status.podIP");
  assert.notEqual(after, before);
  const seen = await inGuest("peer-0", "ip -4 -o address show eth0");
  assert.match(seen, new RegExp(`inet ${after.replaceAll(".", "\\.")}/`));
  assert.doesNotMatch(seen, new RegExp(`inet ${before.replaceAll(".", "\\.")}/`));
  // It was reset before the machine was ready; its program notices in a moment. One that hangs would for hours.
  const ended = async () => assert.match(await inGuest("peer-0", "ls /tmp"), /^ended$/m);
  await eventually(ended, { timeoutMs: 10_000, intervalMs: 200 });
  const banner = async () =>
    assert.match(await inGuest("demo-0", "sleep 5 | nc -w 10 peer-0.peer 22 | head -n 1"), /^SSH-2\.0-/);
  await eventually(banner, patience);
}

async function readPod({ kubectl }: Platform, pod: string, field: string): Promise<string> {
  return kubectl("get", "pod", pod, "-o", `jsonpath={.${field}}`);
}

/** Names of namespaces that the platform of that directory has, its machines' included. */
export async function listNamespaces(home: string): Promise<string[]> {
  const id = createHash("sha256").update(home).digest("hex").slice(0, 8);
  const own = ["router", "node-1", "node-2"].map((name) => `cocoon-up-${id}-${name}`);
  const machines = await Promise.all([1, 2].map((node) => readAttached(home, node)));
  return [...own, ...machines.flat()].filter((name) => existsSync(join("/run/netns", name)));
}

async function readAttached(home: string, node: number): Promise<string[]> {
  const directory = join(home, "parts", `node-${node}`, "net", "cni");
  const files = await readdir(directory).catch(() => []);
  const texts = await Promise.all(files.map((file) => readFile(join(directory, file), "utf8")));
  return texts.map((text) => (JSON.parse(text) as { netns: string }).netns);
}
