/** Memory of a gateway in a process of its own, with many sandboxes listed and many streams open. */
import { spawn } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { apiVersion, gatewayKey } from "@cocoon/contract";
import { eventually, freePort } from "@cocoon/testkit";
import { Sandbox } from "e2b";
import { makeSandbox, type Scene } from "./compare.ts";

export interface MemoryFigures {
  readonly listed: number;
  readonly streams: number;
  readonly memoryMB: number;
}

const program = join(import.meta.dirname, "../../packages/gateway/src/main.ts");

export async function measureMemory(
  scene: Scene,
  { sandboxes, streams }: { readonly sandboxes: number; readonly streams: number },
): Promise<MemoryFigures> {
  const { world, cluster } = scene;
  await using many = await cluster.newNamespace();
  const apiKey = await world.newKey(many.name);
  for (let index = 0; index < sandboxes; index += 1) await createAsleep(scene, many.name, index);
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const env = {
    ...process.env,
    KUBECONFIG: world.gatewayKubeconfig,
    GATEWAY_LISTEN_ADDR: `127.0.0.1:${port}`,
    GATEWAY_METRICS_ADDR: `127.0.0.1:${await freePort()}`,
    GATEWAY_WARM_POOL: "0",
    GATEWAY_REQUESTS_PER_SECOND: "1000",
  };
  const args = ["--max-semi-space-size=2", program];
  const gateway = spawn(process.execPath, args, { env, stdio: ["ignore", "ignore", "inherit"] });
  try {
    await eventually(async () => (await fetch(`${url}/health`)).text(), {
      timeoutMs: 60_000,
      intervalMs: 200,
    });
    const listed = await countListed({ apiKey, apiUrl: url });
    const sandbox = await makeSandbox(scene);
    const process = await sandbox.commands.run("sleep 100000", { background: true, timeoutMs: 0 });
    const connection = { ...world.connection, apiUrl: url, sandboxUrl: url };
    const through = await Sandbox.connect(sandbox.sandboxId, { ...connection, requestTimeoutMs: 240_000 });
    const open = await Promise.all(
      Array.from({ length: streams }, () => through.commands.connect(process.pid, { timeoutMs: 0 })),
    );
    const memoryMB = await readMemory(gateway.pid ?? 0);
    for (const each of open) await each.disconnect();
    await sandbox.kill();
    return { listed, streams: open.length, memoryMB };
  } finally {
    gateway.kill();
  }
}

async function countListed(connection: {
  readonly apiKey: string;
  readonly apiUrl: string;
}): Promise<number> {
  const pages = Sandbox.list(connection);
  let listed = 0;
  while (pages.hasNext) listed += (await pages.nextItems()).length;
  return listed;
}

async function readMemory(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1_000;
}

async function createAsleep({ world }: Scene, namespace: string, index: number): Promise<void> {
  const spec = {
    template: "base",
    account: "cocoon-sandbox",
    timeout: 300,
    startedAt: new Date().toISOString(),
  };
  const body = {
    apiVersion,
    kind: "CocoonSet",
    metadata: {
      name: `i${String(index).padStart(20, "0")}`,
      labels: { [gatewayKey.sandbox]: "true" },
      annotations: {
        [gatewayKey.sandboxSpec]: JSON.stringify({ ...spec, metadata: { index: String(index) } }),
      },
    },
    spec: {
      suspend: true,
      snapshotPolicy: "never",
      agent: { image: "cocoon-demo", mode: "run", replicas: 0 },
    },
  };
  const path = `/apis/${apiVersion}/namespaces/${namespace}/cocoonsets`;
  await world.client.raw({ method: "POST", path, body, signal: AbortSignal.timeout(10_000) });
}
