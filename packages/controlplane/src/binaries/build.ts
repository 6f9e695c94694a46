/** Builds the programs from the Go modules pinned beside this package. Go's own cache makes it resumable. */
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, statfs } from "node:fs/promises";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Fault, getErrorMessage, type Abortable } from "@cocoon/core";
import type { ControlPlaneProgram } from "./programs.ts";

export interface BuildOptions extends Abortable {
  /** Finished file, executable. */
  readonly target: string;
  readonly goCommand: string;
  readonly onProgress: (text: string) => void;
  /** Free space that a build needs at least; a cold one takes about this much. */
  readonly minimumFreeBytes?: number;
}

const goDirectory = fileURLToPath(new URL("../../go/", import.meta.url));
const minimumGoVersion = [1, 26] as const;
const coldBuildBytes = 5e9;
const run = promisify(execFile);

export async function buildProgram(program: ControlPlaneProgram, options: BuildOptions): Promise<void> {
  await mkdir(dirname(options.target), { recursive: true });
  await assertGo(options);
  await assertSpace(options);
  const total = await countPackages(program, options);
  const { linkerFlags, goPackage } = program;
  const args = ["build", "-v", "-trimpath", "-ldflags", linkerFlags, "-o", options.target, goPackage];
  const child = spawn(options.goCommand, args, {
    cwd: join(goDirectory, program.goModule),
    env: goEnvironment(),
    stdio: ["ignore", "ignore", "pipe"],
    signal: options.signal,
  });
  const tail: string[] = [];
  let compiled = 0;
  createInterface({ input: child.stderr }).on("line", (line) => {
    tail.push(line);
    if (tail.length > 12) tail.shift();
    if (line.startsWith("go: downloading")) options.onProgress(`fetching ${line.split(" ")[2] ?? "modules"}`);
    else options.onProgress(`compiling, ${Math.min(99, Math.floor((100 * (compiled += 1)) / total))}%`);
  });
  const [code] = (await once(child, "close")) as [number | null];
  options.signal.throwIfAborted();
  if (code !== 0) throw buildFailure(program, tail);
}

function buildFailure(program: ControlPlaneProgram, tail: readonly string[]): Fault {
  const text = tail.join("\n");
  if (/no space left on device/i.test(text)) {
    return new Fault(
      "outOfSpace",
      `no space left while building ${program.name}: free some disk space (about 5 GB) and run the command again; it goes on where it stopped`,
    );
  }
  return new Fault("internal", `go build ${program.goPackage} failed:\n${text}`);
}

async function assertGo({ goCommand, signal }: BuildOptions): Promise<void> {
  const wanted = minimumGoVersion.join(".");
  let version: string;
  try {
    version = (
      await run(goCommand, ["env", "GOVERSION"], { cwd: goDirectory, env: goEnvironment(), signal })
    ).stdout.trim();
  } catch (error) {
    signal.throwIfAborted();
    throw new Fault(
      "notFound",
      `Go ${wanted} or newer is needed to build the control plane, and \`${goCommand}\` does not run (${getErrorMessage(error).split("\n")[0]}); install it from https://go.dev/doc/install`,
      { cause: error },
    );
  }
  const [major = 0, minor = 0] = version.replace(/^go/, "").split(".").map(Number);
  if (major > minimumGoVersion[0] || (major === minimumGoVersion[0] && minor >= minimumGoVersion[1])) return;
  throw new Fault(
    "notFound",
    `Go ${wanted} or newer is needed to build the control plane, found ${version}; install it from https://go.dev/doc/install`,
  );
}

async function assertSpace(options: BuildOptions): Promise<void> {
  const wanted = options.minimumFreeBytes ?? coldBuildBytes;
  const { bavail, bsize } = await statfs(dirname(options.target));
  const free = bavail * bsize;
  if (free >= wanted) return;
  throw new Fault(
    "outOfSpace",
    `building the control plane needs about ${gigabytes(wanted)} of free disk space, ${dirname(options.target)} has ${gigabytes(free)}`,
  );
}

function gigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}

/** How many packages the program consists of, so that progress has a denominator. */
async function countPackages(
  program: ControlPlaneProgram,
  { goCommand, signal, onProgress }: BuildOptions,
): Promise<number> {
  onProgress("fetching modules");
  try {
    const { stdout } = await run(goCommand, ["list", "-deps", program.goPackage], {
      cwd: join(goDirectory, program.goModule),
      env: goEnvironment(),
      signal,
      maxBuffer: 1 << 24,
    });
    return Math.max(1, stdout.split("\n").length);
  } catch (error) {
    signal.throwIfAborted();
    const text = getErrorMessage(error);
    throw new Fault(
      "unavailable",
      `cannot fetch the Go modules of ${program.name}: ${text.split("\n").slice(-3).join(" ")}`,
      { cause: error },
    );
  }
}

function goEnvironment(): NodeJS.ProcessEnv {
  return { ...process.env, CGO_ENABLED: "0", GOFLAGS: "-mod=readonly -buildvcs=false" }; // oxlint-disable-line node/no-process-env -- proxies and caches are configured there
}
