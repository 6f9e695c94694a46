/** The platform under test with everything that acts on it or looks at it. */
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { clusterLayout } from "@cocoon/controlplane";
import { sleep } from "@cocoon/core";
import { runCommand, testBinaries, type CommandResult } from "@cocoon/testkit";
import { openApiClient } from "./api-client.ts";
import { watchForDuplicates, type DuplicateWatch } from "./duplicate-watch.ts";
import { parseGuestState, writeTokenScript, readStateScript, type GuestState } from "./oracle.ts";
import { openPartProbes, type PartProbes } from "./part-probes.ts";
import { findDeadParts, partNames, signalPart } from "./parts.ts";
import { RecoveryClock } from "./recovery.ts";
import { startRegistryProxy, type RegistryProxy } from "./registry-proxy.ts";

const root = join(import.meta.dirname, "..", "..");

export interface KubeItem {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly generation?: number;
    readonly deletionTimestamp?: string;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly spec: { readonly nodeName?: string; readonly suspend?: boolean };
  readonly status?: {
    readonly phase?: string;
    readonly observedGeneration?: number;
    readonly agents?: readonly { readonly vmName?: string; readonly lifecycleState?: string }[];
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
  };
}

export interface Platform extends AsyncDisposable {
  readonly home: string;
  readonly signal: AbortSignal;
  readonly registry: RegistryProxy;
  readonly duplicates: DuplicateWatch;
  readonly probes: PartProbes;
  readonly recovery: RecoveryClock;
  readonly log: (text: string) => void;
  /** One kubectl; a failure is a result. */
  readonly tryKubectl: (args: readonly string[], input?: string) => Promise<CommandResult>;
  /** Tried again while the API server does not answer; what it refuses is thrown. */
  readonly kubectl: (args: readonly string[], input?: string) => Promise<string>;
  readonly cocoonctl: (...args: string[]) => Promise<CommandResult>;
  /** In namespace default; tried again while the API server does not answer. */
  readonly listSets: () => Promise<KubeItem[]>;
  readonly listPods: () => Promise<KubeItem[]>;
  /** `up` until it succeeds. */
  readonly up: (env?: Readonly<Record<string, string>>) => Promise<void>;
  /** What a user's next command does: starts the supervisor again, unless it runs or nothing else does. */
  readonly startSupervisor: () => Promise<void>;
  /** Starts parts that stay down; returns those that had to be started from outside. */
  readonly startDeadParts: () => Promise<readonly string[]>;
  readonly writeToken: (pod: string, token: string) => Promise<GuestState>;
  /** One attempt. */
  readonly readGuest: (pod: string) => Promise<GuestState>;
  readonly setClock: (part: string, offsetMs: number) => Promise<void>;
}

export const setKind = "cocoonsets.cocoonset.cocoonstack.io";

/** What kubectl prints when the API server did not answer, or does not serve custom resources yet, as opposed to a refusal. */
const unavailable =
  /refused|timeout|timed out|EOF|connection|unreachable|unable to connect|no route|ServiceUnavailable|currently unable|etcdserver|leader|try again|TLS handshake|InternalError|Internal error|failed calling webhook|context deadline|Too Many|not yet|the object has been modified|unable to upgrade|error dialing|doesn't have a resource type|no matches for kind/i;

export interface PlatformOptions {
  readonly home: string;
  readonly signal: AbortSignal;
  readonly log: (text: string) => void;
}

export async function openPlatform({ home, signal, log }: PlatformOptions): Promise<Platform> {
  await using stack = new AsyncDisposableStack();
  const { kubectl: program } = await testBinaries();
  const clocks = join(home, "..", "clocks");
  await mkdir(clocks, { recursive: true });
  await takeImages(home);
  const preload = join(import.meta.dirname, "clock-offset.mjs");
  const partEnv = {
    COCOON_HOME: home,
    COCOON_CHAOS_CLOCKS: clocks,
    NODE_OPTIONS: `--import=file://${preload}`,
  };
  const bootstrap = (args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
    runCommand(process.execPath, [join(root, "scripts", "bootstrap.mjs"), ...args], {
      cwd: root,
      env: { ...partEnv, ...env },
      timeoutMs: 300_000,
    });
  const up: Platform["up"] = async (env = {}) => {
    await signalPart(home, "supervisor", "SIGCONT");
    for (let attempt = 1; ; attempt += 1) {
      const ran = await bootstrap(["up", "--no-demo", "--no-install", "--network", "user"], env);
      if (ran.code === 0) return;
      log(`up failed (attempt ${attempt}): ${lastLine(ran.stderr || ran.stdout)}`);
      if (attempt === 5) throw new Error(`up does not succeed: ${ran.stderr}${ran.stdout}`);
    }
  };
  const tryKubectl: Platform["tryKubectl"] = (args, input) =>
    runCommand(program, args, {
      env: { KUBECONFIG: clusterLayout(home).kubeconfig, HOME: home },
      timeoutMs: 60_000,
      ...(input === undefined ? {} : { input }),
    }).catch((error: unknown) => ({ code: 1, stdout: "", stderr: `timed out: ${String(error)}` }));
  const kubectl: Platform["kubectl"] = async (args, input) => {
    const deadline = performance.now() + 180_000;
    for (;;) {
      const ran = await tryKubectl(args, input);
      if (ran.code === 0) return ran.stdout;
      const message = `kubectl ${args.join(" ").slice(0, 120)}: ${ran.stderr.trim()}`;
      if (!unavailable.test(ran.stderr) || performance.now() > deadline) throw new Error(message);
      await sleep(500, { signal });
    }
  };
  log("bringing the platform up");
  await up();
  stack.defer(async () => {
    await bootstrap(["down"]);
  });
  const ports = JSON.parse(await readFile(join(home, "parts", "parts.json"), "utf8")) as {
    ports: { registry: number };
  };
  const token = (await readFile(join(home, "parts", "registry-token"), "utf8")).trim();
  const registry = stack.use(await startRegistryProxy(home, { port: ports.ports.registry, token }));
  const duplicates = stack.use(watchForDuplicates(home));
  const api = stack.use(await openApiClient(home));
  const probes = await openPartProbes(home);
  const list = (path: string) =>
    retry(async () => ((await api.get(path)) as { items: KubeItem[] }).items, { timeoutMs: 180_000, signal });
  const startSupervisor = async () => {
    const dead = await findDeadParts(home);
    if (dead.includes("supervisor") && dead.length < partNames.length) await bootstrap(["status"]);
  };
  const kept = stack.move();
  return {
    home,
    signal,
    registry,
    duplicates,
    probes,
    recovery: new RecoveryClock(probes),
    log,
    tryKubectl,
    kubectl,
    up,
    cocoonctl: (...args) => bootstrap(["cocoonctl", ...args]),
    listSets: () => list("/apis/cocoonset.cocoonstack.io/v1/namespaces/default/cocoonsets"),
    listPods: () => list("/api/v1/namespaces/default/pods"),
    startSupervisor,
    startDeadParts: async () => {
      const dead = await findDeadParts(home);
      if (dead.length === 0) return [];
      // The supervisor starts the others.
      const unsupervised = dead.includes("supervisor");
      await startSupervisor();
      await waitAlive(home, signal, dead.length < partNames.length ? 60_000 : 0);
      if ((await findDeadParts(home)).length === 0) return unsupervised ? ["supervisor"] : [];
      await up();
      return dead;
    },
    writeToken: (pod, token) =>
      retry(async () => parseGuestState(await api.exec(pod, writeTokenScript(token))), {
        timeoutMs: 90_000,
        signal,
      }),
    readGuest: async (pod) => parseGuestState(await api.exec(pod, readStateScript)),
    setClock: async (part, offsetMs) => {
      await writeFile(join(clocks, part), String(offsetMs));
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

async function retry<T>(
  attempt: () => Promise<T>,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (performance.now() > deadline || signal.aborted) throw error;
    }
    await sleep(300, { signal });
  }
}

async function waitAlive(home: string, signal: AbortSignal, timeoutMs: number): Promise<void> {
  const deadline = performance.now() + timeoutMs;
  while (performance.now() < deadline && (await findDeadParts(home)).length > 0) await sleep(100, { signal });
}

/** The images of the integration tests, so that nothing is built or fetched in a run. */
export function imageCache(): string {
  return join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "cocoon", "test-images");
}

async function takeImages(home: string): Promise<void> {
  await mkdir(join(home, "parts"), { recursive: true, mode: 0o700 });
  await cp(imageCache(), join(home, "parts", "images"), { recursive: true });
}

function lastLine(text: string): string {
  return text.trim().split("\n").at(-1) ?? "";
}
