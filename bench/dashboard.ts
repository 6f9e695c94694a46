/**
 * npm run bench -- dashboard: the page with 1,000 machines in a real browser. The machines are pods of a real API server that no
 * node runs; the dashboard is the built program, in a process of its own.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { annotation, hostTaint, label } from "@cocoon/contract";
import { customResourceDefinitions } from "@cocoon/contract/crd";
import { startProgram } from "@cocoon/core";
import { openKubeClient, pods, type KubeConnection } from "@cocoon/kube";
import { eventually, freePort, ownControlPlane, temporaryDirectory, type TestCluster } from "@cocoon/testkit";
import type { Page } from "playwright-core";
import { buildPage } from "../scripts/build/web.ts";
import { openChromium, openPage } from "../test/e2e/chromium.ts";
import { computeSpread, printReport } from "./report.ts";
import * as inPage from "./dashboard/in-page.ts";
import { released } from "./support/released.ts";

const machines = Number(process.argv[2] ?? 1_000);
const updates = 20;
const namespace = "default";

const signal = AbortSignal.timeout(20 * 60_000);
await using directory = await temporaryDirectory();
await using cluster = await ownControlPlane();
await using client = await openKubeClient({ signal, kubeconfig: cluster.kubeconfigPath });
const token = await prepareCluster(cluster, client);
const page = await buildPage();
const [port, healthPort] = [await freePort(), await freePort()];
const program = await released("cocoon-dashboard", "packages/dashboard/src/main.ts");
const url = `http://127.0.0.1:${port}`;
await using dashboard = await startProgram({
  name: "cocoon-dashboard",
  command: process.execPath,
  args: ["--max-semi-space-size=2", program],
  logFile: join(directory.path, "dashboard.log"),
  env: {
    KUBECONFIG: cluster.kubeconfigPath,
    DASHBOARD_LISTEN_ADDR: `127.0.0.1:${port}`,
    METRICS_ADDR: `127.0.0.1:${healthPort}`,
    DASHBOARD_PAGE: page,
    MALLOC_ARENA_MAX: "2",
    MALLOC_TRIM_THRESHOLD_: "131072",
  },
});
await eventually(async () => assert.equal((await fetch(url)).status, 200), { timeoutMs: 60_000 });
await using browser = await openChromium();
const { page: tab } = await openPage(browser, url);
await tab.addInitScript({ content: inPage.recordFirstRow });
await signIn(tab);

const firstPaintMs: number[] = [];
for (let round = 0; round < 5; round += 1) firstPaintMs.push(await measureFirstRow(tab));
const updateMs: number[] = [];
for (let round = 0; round < updates; round += 1) updateMs.push(await measureUpdate(tab, round));
const longestTaskMs = await tab.evaluate<number>(inPage.scroll);
const serverMiB = readResidentMiB(dashboard.identity.pid);
const bundleKiB = await measureBundle(page);

printReport({
  bench: "dashboard",
  env: { machines },
  figures: {
    firstPaintMs: computeSpread(firstPaintMs),
    updateMs: computeSpread(updateMs),
    longestTaskMs,
    bundleKiB,
    serverMiB,
  },
  targets: [
    { name: "first machines of the list, ms", value: computeSpread(firstPaintMs).median, want: "<= 1500" },
    { name: "update of one machine visible, ms", value: computeSpread(updateMs).high, want: "<= 300" },
    { name: "longest task while scrolling, ms", value: longestTaskMs, want: "<= 50" },
    { name: "bundle before parts on demand, compressed KiB", value: bundleKiB, want: "<= 350" },
    { name: "server memory, MiB", value: serverMiB, want: "<= 100" },
  ],
});

async function prepareCluster(
  { kubectl }: Pick<TestCluster, "kubectl">,
  kube: KubeConnection,
): Promise<string> {
  const run = async (args: readonly string[], input = "") => {
    const ran = await kubectl(args, { input, timeoutMs: 300_000 });
    assert.equal(ran.code, 0, ran.stderr);
    return ran.stdout.trim();
  };
  const definitions = { apiVersion: "v1", kind: "List", items: customResourceDefinitions() };
  await run(["apply", "--server-side", "-f", "-"], JSON.stringify(definitions));
  await run(["create", "serviceaccount", "viewer"]);
  await run([
    "create",
    "clusterrolebinding",
    "viewer",
    "--clusterrole=cluster-admin",
    `--serviceaccount=${namespace}:viewer`,
  ]);
  const names = Array.from({ length: machines }, (_, index) => `machine-${index}`);
  for (let at = 0; at < names.length; at += 20)
    await Promise.all(names.slice(at, at + 20).map((name) => kube.create(pods, buildPod(name), { signal })));
  return run(["create", "token", "viewer"]);
}

function buildPod(name: string) {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      namespace,
      name,
      labels: { [label.set]: "bench", [label.role]: "sub-agent" },
      annotations: { [annotation.lifecycleState]: "creating", [annotation.image]: "cocoon-demo" },
    },
    spec: {
      serviceAccountName: "viewer",
      automountServiceAccountToken: false,
      tolerations: [{ key: hostTaint.key, operator: "Exists" as const }],
      containers: [{ name: "agent", image: "none" }],
    },
  };
}

async function signIn(tab: Page): Promise<void> {
  await tab.goto(url);
  await tab.getByLabel("Token for the Kubernetes API").fill(token);
  await tab.getByRole("button", { name: "Sign in" }).click();
  await tab.getByRole("link", { name: "Machines" }).waitFor();
}

async function measureFirstRow(tab: Page): Promise<number> {
  await tab.goto(`${url}/machines`);
  return eventually(
    async () => {
      const ms = await tab.evaluate<number>("globalThis.firstRowMs ?? 0");
      assert.ok(ms > 0);
      return ms;
    },
    { timeoutMs: 60_000 },
  );
}

/** From the answer of the API server to the change, when its watch event is under way, until the row shows it. */
async function measureUpdate(tab: Page, round: number): Promise<number> {
  const state = round % 2 === 0 ? "failed" : "creating";
  const seenAt = tab.evaluate<number>(inPage.waitForState(state));
  const body = { metadata: { annotations: { [annotation.lifecycleState]: state } } };
  await client.patch(
    pods,
    { key: { namespace, name: "machine-0" }, patch: { type: "merge", body } },
    { signal },
  );
  const changedAt = Date.now();
  return Math.max(0, (await seenAt) - changedAt);
}

/** Everything but the terminal, the screen and the charts, which are loaded on demand. */
async function measureBundle(built: string): Promise<number> {
  const names = (await readdir(built, { recursive: true })).filter((name) => /\.(js|css|html)$/.test(name));
  const first = names.filter((name) => !/(terminal|chart|screen)-/.test(name));
  const bytes = first.map((name) => gzipSync(readFileSync(join(built, name))).length);
  return Math.round(bytes.reduce((sum, size) => sum + size, 0) / 1024);
}

function readResidentMiB(pid: number): number {
  const match = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"));
  return Math.round(Number(match?.[1] ?? 0) / 1024);
}
