/** A gateway in a process of its own, started as the shipped one is, so that it can be killed. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { eventually, freePort } from "@cocoon/testkit";
import { template, type GatewayWorld } from "./world.ts";

export interface GatewayProcess extends AsyncDisposable {
  readonly url: string;
  readonly pid: number;
  /** What an SDK is given to use this one. */
  readonly connection: GatewayWorld["connection"];
  /** By SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
}

const program = join(import.meta.dirname, "../../../packages/gateway/src/main.ts");

export async function startGatewayProcess(
  world: Pick<GatewayWorld, "gatewayKubeconfig" | "connection">,
  settings: Readonly<Record<string, string>> = {},
): Promise<GatewayProcess> {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const env = {
    ...process.env,
    KUBECONFIG: world.gatewayKubeconfig,
    GATEWAY_LISTEN_ADDR: `127.0.0.1:${port}`,
    GATEWAY_METRICS_ADDR: `127.0.0.1:${await freePort()}`,
    GATEWAY_TEMPLATES: JSON.stringify({ base: template }),
    GATEWAY_WARM_POOL: "0",
    GATEWAY_WAIT: "240s",
    ...settings,
  };
  const args = ["--max-semi-space-size=2", program];
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "ignore", "inherit"] });
  const ended = once(child, "exit");
  const kill = async () => {
    child.kill("SIGKILL");
    await ended;
  };
  try {
    await eventually(async () => (await fetch(`${url}/health`)).text(), {
      timeoutMs: 60_000,
      intervalMs: 100,
    });
  } catch (error) {
    await kill();
    throw error;
  }
  return {
    url,
    pid: child.pid ?? 0,
    connection: { ...world.connection, apiUrl: url, sandboxUrl: url },
    kill,
    [Symbol.asyncDispose]: kill,
  };
}
