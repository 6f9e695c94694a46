/**
 * Serves one machine's files while they fill up: a process per machine, started by the runtime, which
 * it outlives. It ends when the mount does. Once everything is here it stays as a reader of the
 * local memory file, which QEMU has mapped through it (`serve-local.ts`).
 */
import { join } from "node:path";
import { Backoff, Fault, getErrorMessage, pathExists, sleep, tryIdentify } from "@cocoon/core";
import { vmFile } from "../store/layout.ts";
import { FuseServer } from "./fuse-server.ts";
import { openLoading, type LoadingMachine } from "./load-machine.ts";
import { nothingLoaded, tryReadLoading, writeLoading, type LoadingState } from "./loading-state.ts";
import { isMounted } from "./mount.ts";
import type { PageServerConfig } from "./page-server-config.ts";
import { becomeLocalServer, describeServed, mountDescriptor, serveLocal } from "./serve-local.ts";
import { WorkingSetRecorder } from "./working-set-recorder.ts";

const reportMs = 200;
const gateMs = { poll: 50, most: 15_000 };
/** What the machine does right after it answered belongs to its working set. */
const recordMs = 2_000;
const { signal } = new AbortController();

/** Resolves when the mount is gone, or does not return: the process becomes another program. */
export async function runPageServer(config: PageServerConfig): Promise<void> {
  const { vmDirectory, resumed } = config;
  const before = await tryReadLoading(vmDirectory);
  if (before?.state !== "local") return serveLoading(config);
  await writeLoading(vmDirectory, { ...before, ...identify() });
  await serveLocal(config, { resend: resumed });
}

async function serveLoading(settings: PageServerConfig): Promise<void> {
  const { lazy, owner, resumed } = settings;
  using loading = await openPersistently(settings);
  if (!loading) return;
  const { content, chunkBytes } = loading;
  // In the order that `serveLocal` has as well: the kernel knows a file by its number, whichever server answers.
  const served = lazy.map((name) => {
    const number = loading.files.findIndex((each) => each.name === name);
    const file = loading.files[number];
    if (!file) throw new Fault("damaged", `the snapshot has no file ${name}`);
    return { file, number };
  });
  const recorder = new WorkingSetRecorder(
    served.map(({ file }) => file),
    chunkBytes,
  );
  const getNumber = (each: number) => served[each]?.number ?? -1;
  const server = new FuseServer(mountDescriptor, {
    files: served.map(({ file }) => describeServed(file)),
    owner,
    chunkBytes,
    has: (file, { offset, size }) => content.has(getNumber(file), offset, size),
    ensure: (file, { offset, size }) => content.ensure(getNumber(file), offset, size),
    onRead: (file, range) => recorder.add(file, range),
    resend: resumed,
  });
  server.start();
  const fill = fillUp(settings, { loading, recorder, server });
  await Promise.race([fill, server.ended]); // a machine that is removed needs nothing any more
  if (await server.quiesce()) {
    loading[Symbol.dispose](); // what it holds in the node's store is held by this process, which goes on
    becomeLocalServer(settings);
  }
  await server.ended;
}

/**
 * The list of chunks comes from the registry. While that does not answer, the guest waits; it must not lose its server for
 * that. Undefined when the mount went meanwhile.
 */
async function openPersistently(settings: PageServerConfig): Promise<LoadingMachine | undefined> {
  const { vmDirectory } = settings;
  const backoff = new Backoff({ baseMs: 100, maxMs: 2_000 });
  for (;;) {
    try {
      return await openLoading(settings, { signal });
    } catch (error) {
      if (!settings.resumed) throw error; // QEMU has not started: the machine is pulled whole
      const before = (await tryReadLoading(vmDirectory)) ?? nothingLoaded;
      await writeLoading(vmDirectory, { ...before, ...identify(), problem: getErrorMessage(error) });
    }
    if (!(await isMounted(join(vmDirectory, vmFile.lazy)))) return undefined;
    await sleep(backoff.nextMs(), { signal });
  }
}

interface Filling {
  readonly loading: LoadingMachine;
  readonly recorder: WorkingSetRecorder;
  readonly server: FuseServer;
}

async function fillUp(
  { vmDirectory, directory }: PageServerConfig,
  { loading, recorder, server }: Filling,
): Promise<void> {
  const report = (state: LoadingState["state"]) => {
    const { counts } = loading.content;
    const problem = counts.problem || server.problem;
    return writeLoading(vmDirectory, { state, ...identify(), ...counts, problem });
  };
  await report("starting");
  await persist(() => loading.loadFirst());
  await report("serving");
  const timer = setInterval(() => void report("serving").catch(() => undefined), reportMs);
  const first = persist(() => loading.loadWorkingSet());
  await awaitAnswer(vmDirectory);
  recorder.markAnswered();
  const recorded = sleep(recordMs, { signal }).then(() => recorder.write(directory));
  await first;
  await persist(() => loading.finish());
  clearInterval(timer);
  await recorded;
  await report("local");
}

/** What the registry refuses is tried again inside; what this host's disk refuses is tried again here. */
async function persist(work: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await work();
    } catch (error) {
      process.stderr.write(`${new Date().toISOString()} ${getErrorMessage(error)}\n`);
      await sleep(1_000, { signal });
    }
  }
}

/** The rest waits until the machine has answered: it would only take the bandwidth. */
async function awaitAnswer(vmDirectory: string): Promise<void> {
  const until = performance.now() + gateMs.most;
  while (performance.now() < until && !(await pathExists(join(vmDirectory, vmFile.answered))))
    await sleep(gateMs.poll, { signal });
}

function identify(): Pick<LoadingState, "server"> {
  const server = tryIdentify(process.pid);
  return server ? { server } : {};
}
