/**
 * The mount through which a machine sees files that are not all here yet. It stays until QEMU has ended: without it, a
 * QEMU that waits for a page could not be killed, because only the mount's path lets us abort the wait.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, read } from "node:fs";
import { access, constants, mkdir, mkdtemp, readFile, rm, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { Fault, getErrorMessage, systemCode, withDeadline, type Abortable } from "@cocoon/core";
import { canResend, opcode, parseInit, requestBytes, tryParseRequest } from "./fuse-messages.ts";

const device = "/dev/fuse";
const probeMs = 10_000;

/** Mounts a file system without a server yet; returns the descriptor that it is served through. */
export async function mountFuse(directory: string, { signal }: Abortable): Promise<number> {
  await mkdir(directory, { recursive: true, mode: 0o755 });
  const fd = openSync(device, "r+");
  try {
    const options = [
      "fd=3,rootmode=40000,user_id=0,group_id=0",
      "allow_other,default_permissions,nosuid,nodev,noexec",
    ];
    await runMount(["mount", "-i", "-t", "fuse", "-o", options.join(","), "cocoon-pages", directory], {
      fd,
      signal,
    });
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

async function runMount(
  [program = "", ...args]: readonly string[],
  { fd, signal }: Abortable & { readonly fd?: number },
): Promise<void> {
  const child = spawn(program, args, {
    stdio: ["ignore", "ignore", "pipe", ...(fd === undefined ? [] : [fd])],
    signal,
  });
  let words = "";
  child.stderr?.on("data", (text: Buffer) => (words += text.toString("utf8").slice(0, 1000)));
  const [code] = (await once(child, "close")) as [number | null];
  if (code !== 0) throw new Fault("unavailable", `${program} failed: ${words.trim() || `exit code ${code}`}`);
}

/** Ends every wait for content at once, with an error. Only for a QEMU that is being killed. */
export async function abortMount(directory: string): Promise<void> {
  if (!(await isMounted(directory))) return;
  // "Busy" is the usual answer; the connection is aborted all the same.
  await runMount(["umount", "-f", directory], { signal: AbortSignal.timeout(probeMs) }).catch(
    () => undefined,
  );
}

/** Takes the mount away once nothing uses it; its server ends then. May be repeated. */
export async function unmountFuse(directory: string): Promise<void> {
  while (await isMounted(directory))
    await runMount(["umount", "-l", directory], { signal: AbortSignal.timeout(probeMs) });
  await rmdir(directory).catch((error: unknown) => {
    if (systemCode(error) !== "ENOENT") throw error;
  });
}

/** By the kernel's list: looking at the directory itself could wait for a dead server. */
export async function isMounted(directory: string): Promise<boolean> {
  const text = await readFile("/proc/self/mountinfo", "utf8");
  const path = directory.replaceAll(/[\\ \t\n]/g, (letter) => `\\0${letter.charCodeAt(0).toString(8)}`);
  return text.split("\n").some((line) => line.split(" ")[4] === path);
}

let known: Promise<string> | undefined;

/** Why files cannot be served on this host; empty when they can. Found out by a mount, once per process. */
export function findFuseProblem(options: Abortable): Promise<string> {
  known ??= probe(options);
  known.catch(() => (known = undefined));
  return known;
}

async function probe({ signal }: Abortable): Promise<string> {
  if (process.getuid?.() !== 0) return "not root: file systems cannot be mounted";
  const found = await access(device, constants.R_OK | constants.W_OK).then(
    () => true,
    () => false,
  );
  if (!found) return `${device} is missing or not permitted`;
  const directory = await mkdtemp(join(tmpdir(), "cocoon-fuse-"));
  try {
    const fd = await mountFuse(directory, { signal: withDeadline(signal, probeMs) });
    try {
      return (await readResend(fd)) ? "" : "this kernel cannot hand requests to another server (6.9 can)";
    } finally {
      await abortMount(directory);
      closeSync(fd);
    }
  } catch (error) {
    signal.throwIfAborted();
    return getErrorMessage(error);
  } finally {
    await unmountFuse(directory);
    await rm(directory, { recursive: true, force: true });
  }
}

/** The first request says what the kernel can. */
async function readResend(fd: number): Promise<boolean> {
  const { bytesRead, buffer } = await promisify(read)(fd, Buffer.alloc(requestBytes), 0, requestBytes, null);
  const request = tryParseRequest(buffer.subarray(0, bytesRead));
  return request?.opcode === opcode.init && canResend(parseInit(request.body));
}
