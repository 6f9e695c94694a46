/** The parts of the registry benchmark that only concern our server: many tags, and clients that are slow. */
import { once } from "node:events";
import { mkdir, readFile } from "node:fs/promises";
import { hash, randomBytes } from "node:crypto";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { runCommand } from "@cocoon/testkit";
import { sleep } from "@cocoon/core";
import { computeSpread } from "./report.ts";

export async function makeCertificate(
  directory: string,
): Promise<{ readonly cert: string; readonly key: string }> {
  await mkdir(directory, { recursive: true });
  const [cert, key] = [join(directory, "tls.crt"), join(directory, "tls.key")];
  const how =
    "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=bench".split(" ");
  const { code, stderr } = await runCommand("openssl", [...how, "-keyout", key, "-out", cert]);
  if (code !== 0) throw new Error(`openssl failed: ${stderr}`);
  return { cert, key };
}

/** Resolves when something listens there. */
export async function connectOnce(port: number): Promise<void> {
  const socket = connect(port, "127.0.0.1");
  await once(socket, "connect");
  socket.destroy();
}

interface Server extends AsyncDisposable {
  readonly url: string;
  readonly token: string;
  readonly pid: number;
}

interface AbuseOptions {
  readonly start: () => Promise<Server>;
  readonly tags: number;
  readonly clients: number;
}

export async function measureAbuse({ start, tags, clients }: AbuseOptions) {
  await using server = await start();
  const blob = await pushBlob(server, randomBytes(8 * 2 ** 20));
  const pageMs = computeSpread(await measurePages(server, tags));
  const slowClientsMiB = await measureSlowClients(server, { blob, clients });
  return { tags, pageMs, clients, slowClientsMiB };
}

const repository = "bench/abuse";
const buildHeaders = ({ token }: Server) => ({ authorization: `Bearer ${token}` });

async function pushBlob(server: Server, content: Buffer): Promise<string> {
  const digest = `sha256:${hash("sha256", content)}`;
  const url = `${server.url}/v2/${repository}/blobs/uploads/?digest=${digest}`;
  const response = await fetch(url, {
    method: "POST",
    body: new Uint8Array(content),
    headers: buildHeaders(server),
  });
  if (response.status !== 201) throw new Error(`push failed: ${response.status}`);
  return digest;
}

/** Times of 200 pages at random places of a repository with so many tags. */
async function measurePages(server: Server, tags: number): Promise<number[]> {
  const empty = Buffer.from("{}");
  const config = {
    mediaType: "application/vnd.oci.empty.v1+json",
    digest: await pushBlob(server, empty),
    size: 2,
  };
  const mediaType = "application/vnd.oci.image.manifest.v1+json";
  const body = JSON.stringify({ schemaVersion: 2, mediaType, config, layers: [] });
  const headers = { ...buildHeaders(server), "content-type": mediaType };
  const nameTag = (index: number) => `tag-${String(index).padStart(7, "0")}`;
  for (let first = 0; first < tags; first += 64)
    await Promise.all(
      Array.from({ length: Math.min(64, tags - first) }, async (_, index) => {
        const url = `${server.url}/v2/${repository}/manifests/${nameTag(first + index)}`;
        const response = await fetch(url, { method: "PUT", body, headers });
        if (response.status !== 201) throw new Error(`push of a tag failed: ${response.status}`);
      }),
    );
  const times: number[] = [];
  for (let page = 0; page < 201; page += 1) {
    const last = nameTag(Math.floor(Math.random() * tags));
    const startedMs = performance.now();
    await (
      await fetch(`${server.url}/v2/${repository}/tags/list?n=100&last=${last}`, { headers })
    ).arrayBuffer();
    if (page > 0) times.push(performance.now() - startedMs); // the first one builds the index
  }
  return times;
}

/** Peak of resident memory while half of the clients read a blob and the other half send one, each hardly at all. */
async function measureSlowClients(
  server: Server,
  { blob, clients }: { readonly blob: string; readonly clients: number },
): Promise<number> {
  const port = Number(new URL(server.url).port);
  const sockets: Socket[] = [];
  let peakMiB = 0;
  try {
    for (let client = 0; client < clients; client += 1) {
      const socket = connect({ port, host: "127.0.0.1", localAddress: `127.0.0.${2 + (client % 4)}` });
      socket.on("error", () => undefined);
      await once(socket, "connect");
      socket.pause();
      const auth = `Host: x\r\nAuthorization: Bearer ${server.token}`;
      if (client % 2 === 0) socket.write(`GET /v2/${repository}/blobs/${blob} HTTP/1.1\r\n${auth}\r\n\r\n`);
      else {
        const digest = `sha256:${hash("sha256", randomBytes(8))}`;
        const target = `/v2/${repository}/blobs/uploads/?digest=${digest}`;
        const length = client % 4 === 1 ? 1_000_000 : 64 * 2 ** 20;
        socket.write(`POST ${target} HTTP/1.1\r\n${auth}\r\nContent-Length: ${length}\r\n\r\n`);
        socket.write(randomBytes(900_000));
      }
      sockets.push(socket);
      if (client % 50 === 0) peakMiB = Math.max(peakMiB, await readResidentMiB(server.pid));
    }
    for (let look = 0; look < 20; look += 1) {
      await sleep(250, { signal: new AbortController().signal });
      peakMiB = Math.max(peakMiB, await readResidentMiB(server.pid));
    }
  } finally {
    for (const socket of sockets) socket.destroy();
  }
  return peakMiB;
}

async function readResidentMiB(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "latin1");
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
}
