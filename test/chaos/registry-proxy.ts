/**
 * Stands between the parts and the registry. Connections to the registry's port are redirected here by the kernel; only
 * this proxy, by its source address, reaches the registry itself.
 */
import { readFile } from "node:fs/promises";
import { createServer, request as requestTls, Agent } from "node:https";
import { request as requestPlain, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Transform } from "node:stream";
import { pkiFiles, clusterLayout } from "@cocoon/controlplane";
import { runCommand } from "@cocoon/testkit";

export const registryFaults = ["notFound", "unavailable", "slow", "full", "corrupt", "reset"] as const;
type RegistryFault = (typeof registryFaults)[number];

/** Requests by which the steps of a hibernate and a wake are seen from outside. */
const milestoneRequests = {
  upload: { method: "POST", path: /\/blobs\/uploads\// },
  push: { method: "PUT", path: /\/manifests\/hibernate$/ },
  seal: { method: "PUT", path: /\/manifests\/hibernated$/ },
  pull: { method: "GET", path: /\/manifests\// },
  blob: { method: "GET", path: /\/blobs\/sha256/ },
  drop: { method: "DELETE", path: /\/manifests\// },
} as const;
export type Milestone = keyof typeof milestoneRequests;
export const milestones = Object.keys(milestoneRequests) as [Milestone, ...Milestone[]];

type RequestMatcher = (method: string, path: string) => boolean;

interface ActiveFault {
  readonly fault: RegistryFault;
  readonly matches: RequestMatcher | undefined;
}

export interface RegistryProxy extends AsyncDisposable {
  /** Until it is disposed: faults what matches, by method and path; by default what the fault is about. The first one wins. */
  readonly inject: (fault: RegistryFault, matches?: RequestMatcher) => Disposable;
  /** Answers that were changed since the start. */
  readonly counts: Readonly<Record<RegistryFault, number>>;
  /** Resolves when such a request arrives, or when the signal aborts. */
  readonly reached: (milestone: Milestone, signal: AbortSignal) => Promise<void>;
  /**
   * Sends requests to replicas on these ports, without TLS, one after the other; each upload stays with one replica.
   * Disposing sends them to the platform's registry again.
   */
  readonly useReplicas: (ports: readonly number[]) => Disposable;
  /** Reads from the registry itself, past every fault. */
  readonly lookup: (
    path: string,
    method?: string,
  ) => Promise<{ status: number; body: string; digest: string }>;
}

const proxyAddress = "127.0.0.9";
const slowMs = 2_500;

export async function startRegistryProxy(
  home: string,
  { port, token }: { readonly port: number; readonly token: string },
): Promise<RegistryProxy> {
  const pki = pkiFiles(clusterLayout(home).pki);
  const [cert, key, ca] = await Promise.all(
    [pki.leaf.components.certificate, pki.leaf.components.key, pki.ca.certificate].map((file) =>
      readFile(file),
    ),
  );
  if (!cert || !key || !ca) throw new Error("the platform has no certificates");
  const agent = new Agent({ keepAlive: true, ca, maxSockets: 64 });
  const upstream = { host: "127.0.0.1", port, localAddress: proxyAddress, agent, servername: "localhost" };
  const counts = { notFound: 0, unavailable: 0, slow: 0, full: 0, corrupt: 0, reset: 0 };
  const active = new Set<ActiveFault>();
  const replicas = new ReplicaChoice();
  const call = (
    options: {
      readonly method?: string | undefined;
      readonly path?: string | undefined;
      readonly headers: object;
    },
    onAnswer: (answer: IncomingMessage) => void,
  ) => {
    const replica = replicas.choose(options.path ?? "");
    const request = { ...options, headers: { ...options.headers }, timeout: 60_000 };
    if (replica === undefined) return requestTls({ ...upstream, ...request }, onAnswer);
    return requestPlain({ host: "127.0.0.1", port: replica, ...request }, (answer) => {
      replicas.notice(replica, answer.headers.location);
      onAnswer(answer);
    });
  };
  const forward = (req: IncomingMessage, res: ServerResponse, corrupt: boolean) => {
    const out = call({ method: req.method, path: req.url, headers: req.headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.headers);
      if (corrupt) answer.pipe(flipBits()).pipe(res);
      else answer.pipe(res);
    });
    out.on("error", () => res.destroy());
    res.on("close", () => out.destroy());
    req.pipe(out);
  };
  const waiting = new Set<(method: string, url: string) => void>();
  const server = createServer({ cert, key }, (req, res) => {
    const { method = "GET", url = "/" } = req;
    for (const notify of waiting) notify(method, url);
    const fault = findFault(active, method, url);
    if (fault) counts[fault] += 1;
    switch (fault) {
      case "notFound":
        res.writeHead(404, { "content-type": "text/html" }).end("<h1>404 Not Found</h1>");
        return;
      case "unavailable":
        res.writeHead(503, { "content-type": "text/plain" }).end("no server is available");
        return;
      case "full":
        req.resume();
        res.writeHead(507, { "content-type": "application/json" });
        res.end(JSON.stringify({ errors: [{ code: "UNKNOWN", message: "no space left on device" }] }));
        return;
      case "reset":
        req.socket.destroy();
        return;
      case "slow":
        setTimeout(() => forward(req, res, false), slowMs);
        return;
      case "corrupt":
      case undefined:
        forward(req, res, fault === "corrupt");
    }
  });
  server.on("tlsClientError", () => undefined).on("clientError", (_error, socket) => socket.destroy());
  server.keepAliveTimeout = 60_000;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  await redirect(port, (server.address() as AddressInfo).port);
  return {
    counts,
    inject: (fault, matches) => {
      const added = { fault, matches };
      active.add(added);
      return { [Symbol.dispose]: () => void active.delete(added) };
    },
    useReplicas: (ports) => replicas.use(ports),
    reached: (milestone, signal) =>
      new Promise<void>((resolve) => {
        const wanted = milestoneRequests[milestone];
        const end = () => {
          signal.removeEventListener("abort", end);
          waiting.delete(notify);
          resolve();
        };
        const notify = (method: string, url: string) => {
          if (method === wanted.method && wanted.path.test(url)) end();
        };
        waiting.add(notify);
        signal.addEventListener("abort", end);
        if (signal.aborted) end();
      }),
    lookup: (path, method = "GET") =>
      new Promise<{ status: number; body: string; digest: string }>((resolve, reject) => {
        const headers = {
          authorization: `Bearer ${token}`,
          accept: "application/vnd.oci.image.manifest.v1+json, */*",
        };
        call({ method, path, headers }, (answer) => {
          let body = "";
          answer.setEncoding("utf8").on("data", (text: string) => (body += text));
          answer.on("end", () =>
            resolve({
              status: answer.statusCode ?? 0,
              body,
              digest: String(answer.headers["docker-content-digest"] ?? ""),
            }),
          );
        })
          .on("error", reject)
          .end();
      }),
    [Symbol.asyncDispose]: async () => {
      await runCommand("nft", ["delete", "table", "ip", "chaos"]);
      agent.destroy();
      server.closeAllConnections();
      server.close();
    },
  };
}

/** Which replica gets a request; none while there are no replicas. */
class ReplicaChoice {
  #ports: readonly number[] = [];
  #next = 0;
  readonly #uploads = new Map<string, number>();

  use(ports: readonly number[]): Disposable {
    this.#ports = ports;
    return { [Symbol.dispose]: () => void (this.#ports = []) };
  }

  choose(path: string): number | undefined {
    const upload = uploadPath.exec(path)?.[1];
    const known = upload === undefined ? undefined : this.#uploads.get(upload);
    if (known !== undefined && this.#ports.includes(known)) return known;
    this.#next += 1;
    return this.#ports[this.#next % this.#ports.length];
  }

  /** An upload is a local file of the replica that began it. */
  notice(port: number, location: string | undefined): void {
    const upload = uploadPath.exec(location ?? "")?.[1];
    if (upload !== undefined) this.#uploads.set(upload, port);
  }
}

const uploadPath = /\/blobs\/uploads\/([^/?]+)/;

function findFault(active: Iterable<ActiveFault>, method: string, path: string): RegistryFault | undefined {
  if (!path.startsWith("/v2/") || path === "/v2/") return undefined;
  for (const { fault, matches } of active)
    if (matches ? matches(method, path) : concerns(fault, method)) return fault;
  return undefined;
}

function concerns(fault: RegistryFault, method: string): boolean {
  if (fault === "full") return ["POST", "PUT", "PATCH"].includes(method);
  if (fault === "notFound" || fault === "corrupt") return ["GET", "HEAD"].includes(method);
  return true;
}

function flipBits(): Transform {
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      const changed = Buffer.from(chunk);
      const middle = changed.length >> 1;
      if (changed.length > 0) changed[middle] = (changed[middle] ?? 0) ^ 0xff;
      done(null, changed);
    },
  });
}

async function redirect(from: number, to: number): Promise<void> {
  const rules = `
table ip chaos {
  chain output {
    type nat hook output priority -100; policy accept;
    ip daddr 127.0.0.1 ip saddr != ${proxyAddress} tcp dport ${from} redirect to :${to}
  }
}`;
  const made = await runCommand("nft", ["-f", "-"], { input: rules });
  if (made.code !== 0) throw new Error(`registry traffic cannot be redirected: ${made.stderr}`);
}
