/**
 * Serves one machine's files while they fill up: a process per machine, started by the runtime, which
 * it outlives. Descriptor 3 is the mount's. It ends when the mount does. Once everything is here it needs neither
 * the registry nor the index any more; it stays as a reader of the local memory file, which QEMU has mapped through it.
 */
import { fstatSync, openSync } from "node:fs";
import { join } from "node:path";
import { getErrorMessage, pathExists, sleep, tryIdentify } from "@cocoon/core";
import { machineFile, vmFile } from "../store/layout.ts";
import { FuseServer, type ServedFile } from "./fuse-server.ts";
import { openLoading, type LoadingMachine, type OpenedFile } from "./load-machine.ts";
import { tryReadLoading, writeLoading, type LoadingState } from "./loading-state.ts";
import type { PageServerConfig } from "./page-server-config.ts";
import { WorkingSetRecorder } from "./working-set-recorder.ts";

const descriptor = 3;
const reportMs = 200;
const gateMs = { poll: 50, most: 15_000 };
/** What the machine does right after it answered belongs to its working set. */
const recordMs = 2_000;
const { signal } = new AbortController();

/** Resolves when the mount is gone. */
export async function runPageServer(config: PageServerConfig): Promise<void> {
  const before = await tryReadLoading(config.vmDirectory);
  if (before?.state === "local") await serveLocal(config, before);
  else await serveLoading(config);
}

async function serveLocal(
  { directory, vmDirectory, lazy, owner, resumed }: PageServerConfig,
  state: LoadingState,
) {
  const opened = lazy.map((name) => {
    const fd = openSync(join(directory, name), "r");
    return { name, fd, size: fstatSync(fd).size };
  });
  const server = new FuseServer(descriptor, {
    files: opened.map(describeServed),
    owner,
    chunkBytes: 64 * 1024,
    has: () => true,
    ensure: () => Promise.resolve(),
    onRead: () => undefined,
    resend: resumed,
  });
  server.start();
  await writeLoading(vmDirectory, { ...state, ...identify() });
  await server.ended;
}

async function serveLoading(settings: PageServerConfig): Promise<void> {
  const { lazy, owner, resumed } = settings;
  using loading = await openLoading(settings, { signal });
  const { content, chunkBytes } = loading;
  const served = loading.files.flatMap((file, number) =>
    lazy.includes(file.name) ? [{ file, number }] : [],
  );
  const recorder = new WorkingSetRecorder(
    served.map(({ file }) => file),
    chunkBytes,
  );
  const getNumber = (each: number) => served[each]?.number ?? -1;
  const server = new FuseServer(descriptor, {
    files: served.map(({ file }) => describeServed(file)),
    owner,
    chunkBytes,
    has: (file, { offset, size }) => content.has(getNumber(file), offset, size),
    ensure: (file, { offset, size }) => content.ensure(getNumber(file), offset, size),
    onRead: (file, range) => recorder.add(file, range),
    resend: resumed,
  });
  server.start();
  const fill = fillUp(settings, { loading, recorder });
  await Promise.race([fill, server.ended]); // a machine that is removed needs nothing any more
  await server.ended;
}

async function fillUp(
  { vmDirectory, directory }: PageServerConfig,
  { loading, recorder }: { readonly loading: LoadingMachine; readonly recorder: WorkingSetRecorder },
): Promise<void> {
  const report = (state: LoadingState["state"]) =>
    writeLoading(vmDirectory, { state, ...identify(), ...loading.content.counts });
  await report("starting");
  await loading.loadFirst();
  await report("serving");
  const timer = setInterval(() => void report("serving").catch(() => undefined), reportMs);
  const first = loading.loadWorkingSet();
  await awaitAnswer(vmDirectory);
  const recorded = sleep(recordMs, { signal }).then(() => recorder.write(directory));
  await first;
  await loadAll(loading);
  clearInterval(timer);
  await recorded;
  await report("local");
}

/** Everything but a full disk is tried again inside; a full disk is tried again here. */
async function loadAll(loading: LoadingMachine): Promise<void> {
  for (;;) {
    try {
      return await loading.finish();
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

function describeServed({ name, fd, size }: OpenedFile): ServedFile {
  return { name, fd, size, inode: fstatSync(fd, { bigint: true }).ino, mapped: name === machineFile.memory };
}

function identify(): Pick<LoadingState, "server"> {
  const server = tryIdentify(process.pid);
  return server ? { server } : {};
}
