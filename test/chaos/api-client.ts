/**
 * A client of the API server that shares no code with the product and starts no process: reads objects, and runs
 * scripts in guests over the same WebSocket that kubectl exec uses.
 */
import { readFile } from "node:fs/promises";
import { Agent, request } from "node:https";
import { clusterLayout, pkiFiles, readClusterState } from "@cocoon/controlplane";
import { WebSocket } from "ws";

export interface ApiClient extends Disposable {
  /** Throws when the API server does not answer or does not answer 200. */
  readonly get: (path: string) => Promise<unknown>;
  /** Output of a shell script in the guest of a pod; throws when it did not end with 0. */
  readonly exec: (pod: string, script: string) => Promise<string>;
}

const getMs = 10_000;
const execMs = 30_000;
const maxAnswerBytes = 16 * 1024 * 1024;

interface Access {
  readonly host: string;
  readonly port: number;
  readonly ca: Buffer;
  readonly cert: Buffer;
  readonly key: Buffer;
}

export async function openApiClient(home: string): Promise<ApiClient> {
  const layout = clusterLayout(home);
  const state = await readClusterState(layout);
  if (!state) throw new Error(`${home} holds no cluster`);
  const { ca, leaf } = pkiFiles(layout.pki);
  const files = [ca.certificate, leaf.admin.certificate, leaf.admin.key];
  const [authority, cert, key] = await Promise.all(files.map((file) => readFile(file)));
  if (!authority || !cert || !key) throw new Error("the cluster has no certificates");
  const access: Access = { host: "127.0.0.1", port: state.ports.apiserver, ca: authority, cert, key };
  const agent = new Agent({ keepAlive: true, maxSockets: 8 });
  return {
    get: (path) => getJson(access, agent, path),
    exec: (pod, script) => execScript(access, pod, script),
    [Symbol.dispose]: () => agent.destroy(),
  };
}

function getJson(access: Access, agent: Agent, path: string): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const call = request(
      { ...access, agent, path, signal: AbortSignal.timeout(getMs), headers: { accept: "application/json" } },
      (answer) => {
        let body = "";
        answer.setEncoding("utf8").on("data", (text: string) => {
          body += text;
          if (body.length > maxAnswerBytes) call.destroy(new Error(`the answer of ${path} is too large`));
        });
        answer.on("error", reject).on("end", () => {
          if (answer.statusCode === 200) resolve(JSON.parse(body));
          else reject(new Error(`GET ${path}: ${answer.statusCode} ${body.slice(0, 200)}`));
        });
      },
    );
    call.on("error", reject).end();
  });
}

const channel = { stdout: 1, stderr: 2, status: 3 } as const;

function execScript(access: Access, pod: string, script: string): Promise<string> {
  const { host, port, ...tls } = access;
  const query = new URLSearchParams({ stdout: "true", stderr: "true" });
  for (const word of ["sh", "-c", script]) query.append("command", word);
  const url = `wss://${host}:${port}/api/v1/namespaces/default/pods/${pod}/exec?${query.toString()}`;
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url, ["v5.channel.k8s.io"], { ...tls, handshakeTimeout: getMs });
    const texts = { [channel.stdout]: "", [channel.stderr]: "", [channel.status]: "" } as Record<
      number,
      string
    >;
    const timer = setTimeout(() => {
      reject(new Error(`exec in ${pod} did not end in ${execMs / 1000} s`));
      socket.terminate();
    }, execMs);
    socket.on("message", (data: Buffer) => {
      const number = data[0] ?? 0;
      texts[number] = `${texts[number] ?? ""}${data.subarray(1).toString("utf8")}`;
    });
    socket.on("error", reject);
    socket.on("close", () => {
      clearTimeout(timer);
      const status = texts[channel.status] ?? "";
      if (/"status":\s*"Success"/.test(status)) resolve(texts[channel.stdout] ?? "");
      else
        reject(new Error(`exec in ${pod}: ${status || "closed without a status"} ${texts[channel.stderr]}`));
    });
  });
}
