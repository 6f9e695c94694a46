/** Memory of a gateway in a process of its own, with many sandboxes listed and many streams open. */
import { readFile } from "node:fs/promises";
import { apiVersion, gatewayKey } from "@cocoon/contract";
import { Sandbox } from "e2b";
import { startGatewayProcess } from "../../test/integration/gateway/gateway-process.ts";
import { makeSandbox, type Scene } from "./compare.ts";

export interface MemoryFigures {
  readonly listed: number;
  readonly streams: number;
  readonly memoryMB: number;
}

export async function measureMemory(
  scene: Scene,
  { sandboxes, streams }: { readonly sandboxes: number; readonly streams: number },
): Promise<MemoryFigures> {
  const { world, cluster } = scene;
  await using many = await cluster.newNamespace();
  const apiKey = await world.newKey(many.name);
  for (let index = 0; index < sandboxes; index += 1) await createAsleep(scene, many.name, index);
  await using gateway = await startGatewayProcess(world, { GATEWAY_REQUESTS_PER_SECOND: "1000" });
  const listed = await countListed({ apiKey, apiUrl: gateway.url });
  const sandbox = await makeSandbox(scene);
  const process = await sandbox.commands.run("sleep 100000", { background: true, timeoutMs: 0 });
  const through = await Sandbox.connect(sandbox.sandboxId, {
    ...gateway.connection,
    requestTimeoutMs: 240_000,
  });
  const open = await Promise.all(
    Array.from({ length: streams }, () => through.commands.connect(process.pid, { timeoutMs: 0 })),
  );
  const memoryMB = await readMemory(gateway.pid);
  for (const each of open) await each.disconnect();
  await sandbox.kill();
  return { listed, streams: open.length, memoryMB };
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
