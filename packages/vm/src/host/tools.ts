/** Host programs that images are made with: found before work begins, run with limits, missing ones named together. */
import { spawn } from "node:child_process";
import { access, constants } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { Fault, toFault, withDeadline, type Abortable } from "@cocoon/core";

/** Programs and the Debian package each comes from. */
const debianPackages = {
  "apt-get": "apt",
  "apt-cache": "apt",
  "dpkg-deb": "dpkg",
  mke2fs: "e2fsprogs",
  debugfs: "e2fsprogs",
  e2fsck: "e2fsprogs",
  "qemu-img": "qemu-utils",
  gcc: "gcc libc6-dev",
  mmdebstrap: "mmdebstrap",
  dnsmasq: "dnsmasq-base",
  nft: "nftables",
  ip: "iproute2",
  unshare: "util-linux",
} as const;

export type ToolName = keyof typeof debianPackages;

export interface RunOptions extends Abortable {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly timeoutMs?: number;
  /** What the program reads; default nothing. */
  readonly input?: string;
  /** Exit codes that are an answer, not a failure. Default: only 0. */
  readonly acceptCodes?: readonly number[];
  /** For programs that repeat each of their commands on standard output. */
  readonly discardStdout?: boolean;
}

export interface ToolOutput {
  readonly stdout: string;
  readonly stderr: string;
  readonly code: number;
}

const maxOutputBytes = 16 * 1024 * 1024;
const defaultTimeoutMs = 300_000;

/** Ordinary users often lack the administrator's directories, where the file system tools live. */
// oxlint-disable-next-line node/no-process-env -- PATH is how programs are found
function searchPath(path = process.env["PATH"] ?? ""): string[] {
  return [...new Set([...path.split(":").filter(Boolean), "/usr/sbin", "/sbin", "/usr/bin", "/bin"])];
}

export async function isInstalled(program: string, path: string): Promise<boolean> {
  return (await tryFind(program, searchPath(path))) !== undefined;
}

async function tryFind(
  program: string,
  directories: readonly string[] = searchPath(),
): Promise<string | undefined> {
  for (const directory of directories) {
    const path = join(directory, program);
    const found = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return path;
  }
  return undefined;
}

/** Throws one fault that names every missing program and how to get them all. */
export async function requireTools(
  names: readonly ToolName[],
  purpose: string,
  directories: readonly string[] = searchPath(),
): Promise<void> {
  const missing: ToolName[] = [];
  for (const name of names) if (!(await tryFind(name, directories))) missing.push(name);
  if (missing.length === 0) return;
  const packages = [...new Set(missing.map((name) => debianPackages[name]))].join(" ");
  throw new Fault(
    "notSupported",
    `${purpose} needs ${missing.join(", ")}: install with "apt-get install ${packages}"`,
  );
}

/** Its path; `notSupported` where it is missing. */
export async function findTool(name: ToolName): Promise<string> {
  const path = await tryFind(name);
  if (path) return path;
  throw new Fault(
    "notSupported",
    `${name} is missing: install with "apt-get install ${debianPackages[name]}"`,
  );
}

export async function runTool(
  name: ToolName,
  args: readonly string[],
  options: RunOptions,
): Promise<ToolOutput> {
  const path = await findTool(name);
  options.signal.throwIfAborted();
  const deadline = withDeadline(options.signal, options.timeoutMs ?? defaultTimeoutMs);
  const child = spawn(path, args, {
    stdio: [
      options.input === undefined ? "ignore" : "pipe",
      options.discardStdout ? "ignore" : "pipe",
      "pipe",
    ],
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    // oxlint-disable-next-line node/no-process-env -- children inherit ours; messages must be in one language
    env: { ...process.env, PATH: searchPath().join(":"), LC_ALL: "C.UTF-8", ...options.env },
    signal: deadline,
    killSignal: "SIGKILL",
  });
  child.stdin?.on("error", () => undefined); // it may end without reading all; its exit code says why
  child.stdin?.end(options.input);
  const output = { stdout: collect(child.stdout), stderr: collect(child.stderr) };
  const code = await new Promise<number | NodeJS.Signals>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (exitCode, signal) => resolve(exitCode ?? signal ?? -1));
  }).catch((error: unknown) => {
    options.signal.throwIfAborted();
    if (deadline.aborted) throw new Fault("timeout", `${name} did not end in time`, { cause: error });
    throw toFault(error, name);
  });
  const stdout = output.stdout();
  const stderr = output.stderr();
  if (typeof code === "number" && (options.acceptCodes ?? [0]).includes(code))
    return { stdout, stderr, code };
  const said = stderr.trim().split("\n").slice(-3).join(" | ");
  const kind = /No space left on device/i.test(stderr) ? "outOfSpace" : "internal";
  throw new Fault(kind, `${name} failed (${code}): ${said || stdout.trim().slice(-300)}`);
}

/** Keeps what a program prints, up to a limit: the beginning is what names the problem. */
function collect(stream: Readable | null): () => string {
  const chunks: Buffer[] = [];
  let bytes = 0;
  stream?.on("data", (chunk: Buffer) => {
    if (bytes < maxOutputBytes) chunks.push(chunk);
    bytes += chunk.length;
  });
  return () => Buffer.concat(chunks).toString("utf8");
}
