/** HTTP to a port of a guest: through the gateway, and by the node's own forward of the port. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { request } from "node:http";
import { makeSandbox, type Scene } from "./compare.ts";

const serve = "mkdir -p /tmp/www && echo page > /tmp/www/index.html && httpd -p 8000 -h /tmp/www";

interface Target {
  readonly port: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Status of one request. */
function get({ port, headers }: Target): Promise<number> {
  return new Promise((resolve, reject) => {
    const sent = request(
      { host: "127.0.0.1", port, path: "/", headers: { ...headers }, agent: false },
      (answer) => {
        answer.resume().on("end", () => resolve(answer.statusCode ?? 0));
      },
    );
    sent.on("error", reject).end();
  });
}

/** Requests a second, a few at a time. */
async function rate(target: Target, count: number): Promise<number> {
  const began = performance.now();
  let left = count;
  const worker = async () => {
    while (left-- > 0) await get(target);
  };
  await Promise.all(Array.from({ length: 4 }, worker));
  return (count * 1000) / (performance.now() - began);
}

export async function measureProxy(
  scene: Scene,
  count: number,
): Promise<{ readonly through: number; readonly direct: number }> {
  const { world, cluster } = scene;
  const sandbox = await makeSandbox(scene);
  await sandbox.commands.run(serve, { user: "root" });
  const env = { ...process.env, KUBECONFIG: cluster.kubeconfigPath };
  const args = ["port-forward", `pod/${sandbox.sandboxId}-0`, ":8000", "-n", world.namespace];
  const forward = spawn(cluster.binaries.kubectl, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  const [line] = (await once(forward.stdout, "data")) as [Buffer];
  const direct: Target = { port: Number(/127\.0\.0\.1:(\d+)/.exec(line.toString())?.[1]) };
  const through: Target = { port: Number(new URL(world.url).port), headers: route(sandbox) };
  await rate(through, 10);
  await rate(direct, 10);
  const figures = { through: await rate(through, count), direct: await rate(direct, count) };
  forward.kill();
  await sandbox.kill();
  return figures;
}

function route(sandbox: {
  readonly sandboxId: string;
  readonly trafficAccessToken?: string | undefined;
}): Record<string, string> {
  return {
    "e2b-sandbox-id": sandbox.sandboxId,
    "e2b-sandbox-port": "8000",
    "e2b-traffic-access-token": sandbox.trafficAccessToken ?? "",
  };
}

export async function measureHeld(
  scene: Scene,
  requests: number,
): Promise<{ readonly requests: number; readonly answered: number; readonly wakes: number }> {
  const { world } = scene;
  const sandbox = await makeSandbox(scene, { lifecycle: { onTimeout: "pause", autoResume: true } });
  await sandbox.commands.run(serve, { user: "root" });
  await sandbox.pause({ requestTimeoutMs: 240_000 });
  const path = `/apis/cocoonset.cocoonstack.io/v1/namespaces/${world.namespace}/cocoonsets/${sandbox.sandboxId}`;
  const readGeneration = async () =>
    (
      (await world.client.raw({ method: "GET", path, signal: AbortSignal.timeout(10_000) })) as {
        metadata: { generation: number };
      }
    ).metadata.generation;
  const before = await readGeneration();
  const target: Target = { port: Number(new URL(world.url).port), headers: route(sandbox) };
  const answers = await Promise.all(Array.from({ length: requests }, () => get(target).catch(() => 0)));
  const wakes = (await readGeneration()) - before;
  await sandbox.kill();
  return { requests, answered: answers.filter((status) => status === 200).length, wakes };
}
