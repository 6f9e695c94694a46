/** `exec` as a client of the API server sees it, over WebSocket, without the start of a kubectl in the figure. */
import { readFile } from "node:fs/promises";
import { parse } from "yaml";
import { WebSocket } from "ws";

export interface ExecTarget {
  readonly server: string;
  readonly kubeconfigPath: string;
  readonly namespace: string;
  readonly pod: string;
}

interface Credentials {
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
}

async function readCredentials(path: string): Promise<Credentials> {
  const config = parse(await readFile(path, "utf8")) as {
    clusters: { cluster: Record<string, string> }[];
    users: { user: Record<string, string> }[];
  };
  const material = async (from: Record<string, string> | undefined, name: string): Promise<Buffer> => {
    const data = from?.[`${name}-data`];
    return data ? Buffer.from(data, "base64") : readFile(from?.[name] ?? "");
  };
  const [cluster, user] = [config.clusters[0]?.cluster, config.users[0]?.user];
  return {
    ca: await material(cluster, "certificate-authority"),
    cert: await material(user, "client-certificate"),
    key: await material(user, "client-key"),
  };
}

export interface ExecClient {
  /** Resolves when the connection is closed, with the bytes that came on standard output. */
  run(command: readonly string[]): Promise<{ readonly bytes: number; readonly tookMs: number }>;
}

export async function openExecClient(target: ExecTarget): Promise<ExecClient> {
  const credentials = await readCredentials(target.kubeconfigPath);
  return {
    run: (command) => {
      const query = new URLSearchParams([
        ["stdout", "1"],
        ["stderr", "1"],
        ...command.map((word) => ["command", word] as [string, string]),
      ]);
      const url = `${target.server.replace(/^http/, "ws")}/api/v1/namespaces/${target.namespace}/pods/${target.pod}/exec?${query.toString()}`;
      const began = performance.now();
      return new Promise((resolve, reject) => {
        let bytes = 0;
        let status = "";
        const socket = new WebSocket(url, "v5.channel.k8s.io", { ...credentials, perMessageDeflate: false });
        socket.on("message", (data: Buffer) => {
          if (data[0] === 1) bytes += data.length - 1;
          if (data[0] === 3) status += data.toString("utf8", 1);
        });
        socket.on("error", reject);
        socket.on("close", () =>
          /"Success"/.test(status)
            ? resolve({ bytes, tookMs: performance.now() - began })
            : reject(new Error(`exec ended with: ${status}`)),
        );
      });
    },
  };
}
