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
