/** A platform that is up, as tests look at it: kubectl without npm around it, machines as their nodes know them. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { clusterLayout, markedProcesses } from "@cocoon/controlplane";
import { sleep } from "@cocoon/core";
import { eventually, runCommand, testBinaries } from "@cocoon/testkit";
import { openImageLibrary } from "@cocoon/images";
import { openQemuRuntime, openUserNetwork } from "@cocoon/qemu";
import type { VmState } from "@cocoon/vm";

export const convergeMs = 240_000;

/** A machine on disk, running or not. */
export interface KnownMachine {
  readonly node: string;
  readonly name: string;
  readonly state: VmState;
}

export interface Platform {
  readonly home: string;
  /** Output of a kubectl that must succeed. */
  readonly kubectl: (...args: string[]) => Promise<string>;
  /** Output of a shell script in a machine. */
  readonly inGuest: (pod: string, script: string) => Promise<string>;
  /** Waits until `status.phase` of the demo set is that. */
  readonly reaches: (phase: string) => Promise<void>;
  readonly suspend: (wanted: boolean) => Promise<void>;
  /** Follows an annotation of a pod. */
  readonly watchPod: (pod: string, annotation: string) => PodWatch;
}

interface PodWatch extends Disposable {
  /** Waits until its values so far, one a line, match. */
  readonly seen: (pattern: RegExp) => Promise<void>;
}

export async function openPlatform(home: string): Promise<Platform> {
  const { kubectl: program } = await testBinaries();
  const kubectl = async (...args: string[]) => {
    const env = { KUBECONFIG: clusterLayout(home).kubeconfig };
    const ran = await runCommand(program, args, { env, timeoutMs: convergeMs + 60_000 });
    assert.equal(ran.code, 0, `kubectl ${args.join(" ")}: ${ran.stderr}${ran.stdout}`);
    return ran.stdout;
  };
  const watchPod = (pod: string, annotation: string): PodWatch => {
    const path = `{.metadata.annotations['${annotation.replaceAll(".", "\\.")}']}{"\\n"}`;
    const child = spawn(program, ["get", "pod", pod, "--watch", "-o", `jsonpath=${path}`], {
      env: { ...process.env, KUBECONFIG: clusterLayout(home).kubeconfig },
      stdio: ["ignore", "pipe", "ignore"],
    });
    let values = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (values += text));
    return {
      seen: (pattern) =>
        eventually(() => assert.match(values, pattern), { timeoutMs: convergeMs, intervalMs: 2 }),
      [Symbol.dispose]: () => void child.kill("SIGKILL"),
    };
  };
  const set = "cocoonset.cocoonset.cocoonstack.io/demo";
  return {
    home,
    kubectl,
    watchPod,
    inGuest: (pod, script) => kubectl("exec", pod, "--", "sh", "-c", script),
    reaches: (phase) =>
      eventually(
        async () => assert.equal(await kubectl("get", set, "-o", "jsonpath={.status.phase}"), phase),
        { timeoutMs: convergeMs, intervalMs: 500 },
      ),
    suspend: async (wanted) => {
      await kubectl("patch", set, "--type=merge", "-p", JSON.stringify({ spec: { suspend: wanted } }));
    },
  };
}

/** QEMU processes that work below that directory. */
export function machineProcesses(home: string): number[] {
  return readdirSync("/proc")
    .filter((pid) => {
      if (!/^\d+$/.test(pid)) return false;
      try {
        return (
          readFileSync(`/proc/${pid}/comm`, "utf8").startsWith("qemu") &&
          readlinkSync(`/proc/${pid}/cwd`).startsWith(home)
        );
      } catch {
        return false; // it ended while we looked
      }
    })
    .map(Number);
}

/** What the nodes of that platform keep on disk. */
export async function knownMachines(home: string): Promise<KnownMachine[]> {
  const { signal } = new AbortController();
  const found: KnownMachine[] = [];
  for (const node of ["node-1", "node-2"]) {
    const rootDirectory = join(home, "parts", node);
    if (!existsSync(join(rootDirectory, "qemu"))) continue;
    const network = await openUserNetwork({ directory: join(rootDirectory, "net") });
    await using runtime = await openQemuRuntime({
      rootDirectory,
      images: openImageLibrary({ directory: join(home, "parts", "images") }),
      networks: new Map([["user", network]]),
      path: process.env["PATH"] ?? "",
      recover: false,
      signal,
    });
    found.push(...(await runtime.list({ signal })).map(({ name, state }) => ({ node, name, state })));
  }
  return found;
}

/** As if the plug were pulled: every process of the platform, machines included, dies at the same moment. */
export async function pullThePlug(home: string): Promise<void> {
  // Twice: what a dying part had just started is not in the first list.
  for (;;) {
    const living = [...markedProcesses(home).map(({ identity }) => identity.pid), ...machineProcesses(home)];
    if (living.length === 0) return;
    for (const pid of living) tryKill(pid);
    await sleep(20, { signal: new AbortController().signal });
  }
}

function tryKill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // it ended before we came
  }
}
