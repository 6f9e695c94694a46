/** Official release binaries, verified with the checksum that the release publishes next to them. */
import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { chmod, mkdtemp, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import { Fault, getErrorMessage, withDeadline, type Abortable } from "@cocoon/core";
import type { ControlPlaneProgram } from "./programs.ts";

export interface DownloadOptions extends Abortable {
  /** Finished file, executable. */
  readonly target: string;
  readonly sites: ReleaseSites;
  readonly onProgress: (text: string) => void;
}

export interface ReleaseSites {
  readonly kubernetes: string;
  readonly etcd: string;
  readonly coredns: string;
}

export const officialSites: ReleaseSites = {
  kubernetes: "https://dl.k8s.io/release",
  etcd: "https://github.com/etcd-io/etcd/releases/download",
  coredns: "https://github.com/coredns/coredns/releases/download",
};

const run = promisify(execFile);
const architectures: Readonly<Record<string, string>> = { x64: "amd64", arm64: "arm64" };
const connectDeadlineMs = 15_000;

/** Throws `unavailable` when the site cannot be reached, `invalid` when the checksum is wrong. */
export async function downloadProgram(program: ControlPlaneProgram, options: DownloadOptions): Promise<void> {
  const architecture = architectures[process.arch] ?? process.arch;
  if (program.name === "etcd") return downloadEtcd(program, architecture, options);
  if (program.name === "coredns") return downloadCoredns(program, architecture, options);
  const url = `${options.sites.kubernetes}/v${program.version}/bin/linux/${architecture}/${program.name}`;
  const wanted = (await fetchText(`${url}.sha256`, options)).trim();
  await fetchVerified(url, wanted, options);
  await chmod(options.target, 0o755);
}

async function downloadEtcd(
  program: ControlPlaneProgram,
  architecture: string,
  options: DownloadOptions,
): Promise<void> {
  const base = `etcd-v${program.version}-linux-${architecture}`;
  const site = `${options.sites.etcd}/v${program.version}`;
  const sums = await fetchText(`${site}/SHA256SUMS`, options);
  const sha256 = findChecksum(sums, `${base}.tar.gz`, `${site}/SHA256SUMS`);
  await fetchArchive({ url: `${site}/${base}.tar.gz`, sha256, member: `${base}/etcd` }, options);
}

async function downloadCoredns(
  { version }: ControlPlaneProgram,
  architecture: string,
  options: DownloadOptions,
): Promise<void> {
  const file = `coredns_${version}_linux_${architecture}.tgz`;
  const url = `${options.sites.coredns}/v${version}/${file}`;
  const sha256 = findChecksum(await fetchText(`${url}.sha256`, options), file, `${url}.sha256`);
  await fetchArchive({ url, sha256, member: "coredns" }, options);
}

// oxlint-disable-next-line max-params -- a text, what is looked for in it, and where it came from
function findChecksum(sums: string, file: string, source: string): string {
  const line = sums.split("\n").find((each) => each.trim().endsWith(file));
  const wanted = line?.trim().split(/\s+/)[0];
  if (!wanted) throw new Fault("invalid", `${source} does not list ${file}`);
  return wanted;
}

interface Archive {
  readonly url: string;
  readonly sha256: string;
  /** The program in it. */
  readonly member: string;
}

async function fetchArchive({ url, sha256, member }: Archive, options: DownloadOptions): Promise<void> {
  const directory = await mkdtemp(join(dirname(options.target), ".unpack-"));
  try {
    const archive = join(directory, "archive.tar.gz");
    await fetchVerified(url, sha256, { ...options, target: archive });
    await run("tar", ["-xzf", archive, "-C", directory, member], { signal: options.signal });
    await rename(join(directory, member), options.target);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function fetchText(url: string, options: DownloadOptions): Promise<string> {
  return (await request(url, withDeadline(options.signal, connectDeadlineMs))).text();
}

async function request(url: string, signal: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, { signal });
  } catch (error) {
    signal.throwIfAborted();
    throw new Fault("unavailable", `cannot reach ${new URL(url).host}: ${getErrorMessage(error)}`, {
      cause: error,
    });
  }
  if (!response.ok) throw new Fault("unavailable", `${url} answered ${response.status}`);
  return response;
}

async function fetchVerified(url: string, sha256: string, options: DownloadOptions): Promise<void> {
  const response = await request(url, options.signal);
  if (!response.body) throw new Fault("unavailable", `${url} answered without a body`);
  const total = Number(response.headers.get("content-length") ?? 0);
  const hash = createHash("sha256");
  let received = 0;
  const body = Readable.fromWeb(response.body).on("data", (chunk: Buffer) => {
    hash.update(chunk);
    received += chunk.length;
    options.onProgress(`downloading ${megabytes(received)}${total ? ` of ${megabytes(total)}` : ""}`);
  });
  await pipeline(body, createWriteStream(options.target), { signal: options.signal });
  const actual = hash.digest("hex");
  if (actual === sha256) return;
  await rm(options.target, { force: true });
  throw new Fault(
    "invalid",
    `wrong checksum for ${url}: want ${sha256}, got ${actual}; the file was discarded`,
  );
}

function megabytes(bytes: number): string {
  return `${Math.round(bytes / 1e6)} MB`;
}
