/** The executable itself, as a child process that tests may kill. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { request } from "node:https";
import { join } from "node:path";
import { eventually, freePort } from "@cocoon/testkit";

const main = join(import.meta.dirname, "../../../packages/webhook/src/main.ts");

export interface Replica extends AsyncDisposable {
  readonly port: number;
  readonly metricsPort: number;
  readonly child: ChildProcess;
  output(): string;
  kill(signal: NodeJS.Signals): Promise<void>;
  ready(): Promise<void>;
  metrics(): Promise<string>;
}

export async function startReplica(
  kubeconfig: string,
  name: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Replica> {
  const port = await freePort();
  const metricsPort = await freePort();
  const child = spawn(process.execPath, [main], {
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      PATH: process.env["PATH"],
      KUBECONFIG: kubeconfig,
      LISTEN_ADDR: `127.0.0.1:${port}`,
      METRICS_ADDR: `127.0.0.1:${metricsPort}`,
      POD_NAME: name,
      WEBHOOK_CERTIFICATES: "built-in",
      WEBHOOK_CERTIFICATE_HOSTS: "127.0.0.1",
      WEBHOOK_LAME_DUCK: "300ms",
      ...env,
    },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => (output = (output + text).slice(-20_000)));
  const exited = once(child, "exit");
  const endWithUs = () => child.kill("SIGKILL");
  process.once("exit", endWithUs);
  const replica: Replica = {
    port,
    metricsPort,
    child,
    output: () => output,
    kill: async (signal) => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill(signal);
      await exited;
    },
    ready: async () => {
      await eventually(
        async () => {
          assert.equal(child.exitCode, null, output);
          assert.equal(await readyz(port), 200, output.slice(-2_000));
        },
        { timeoutMs: 60_000, intervalMs: 100 },
      );
    },
    metrics: async () => (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text(),
    [Symbol.asyncDispose]: async () => {
      process.removeListener("exit", endWithUs);
      await replica.kill("SIGKILL");
    },
  };
  return replica;
}

function readyz(port: number): Promise<number> {
  return new Promise((resolve) => {
    const call = request(
      { host: "127.0.0.1", port, path: "/readyz", rejectUnauthorized: false },
      (response) => {
        response.resume();
        resolve(response.statusCode ?? 0);
      },
    );
    call.on("error", () => resolve(0));
    call.setTimeout(5_000, () => call.destroy(new Error("no answer")));
    call.end();
  });
}
