/** Starts page servers, so that they outlive us, and starts another one where one has died. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync } from "node:fs";
import { join } from "node:path";
import { Writable } from "node:stream";
import {
  Fault,
  isAlive,
  lastLines,
  signalProcess,
  sleep,
  tryIdentify,
  withDeadline,
  type Abortable,
  type ProcessIdentity,
} from "@cocoon/core";
import type { QemuContext } from "../context.ts";
import { findOwner } from "../process/jail.ts";
import { vmFile } from "../store/layout.ts";
import type { VmRecord } from "../store/vm-record.ts";
import { nothingLoaded, tryReadLoading, writeLoading, type LoadingState } from "./loading-state.ts";
import type { PageServerConfig } from "./page-server-config.ts";
import { settingsDescriptor, smallProcess } from "./serve-local.ts";
import { takeDescriptor } from "./take-descriptor.ts";

/** Descriptor of the mount in every QEMU whose files are served. */
const inheritedDescriptor = 4;

/** How the program is started. */
export const pageServerProgram: readonly string[] = [
  process.execPath,
  join(import.meta.dirname, "page-server.ts"),
];

/** Requests block threads; content is stored in others. */
const threads = "16";
const firstMs = 5 * 60_000;
const { signal: never } = new AbortController();

export function requireLazy({
  settings: { lazy },
}: Pick<QemuContext, "settings">): NonNullable<QemuContext["settings"]["lazy"]> {
  if (!lazy) throw new Fault("unavailable", "this program was not given a registry to load machines from");
  return lazy;
}

/** The caller keeps the descriptor. */
export async function startPageServer(
  context: QemuContext,
  record: VmRecord,
  { fd, resumed }: { readonly fd: number; readonly resumed: boolean },
): Promise<ProcessIdentity> {
  const { registry, store, program, path } = requireLazy(context);
  if (!record.lazy) throw new Fault("internal", `VM ${record.name} has nothing to load`);
  const vmDirectory = context.store.getDirectory(record.id);
  const config: PageServerConfig = {
    registry,
    store,
    repository: record.lazy.repository,
    digest: record.lazy.digest,
    lazy: record.lazy.files,
    directory: join(vmDirectory, record.files),
    vmDirectory,
    program: [...program],
    owner: findOwner(context, record) ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 },
    resumed,
  };
  const log = openSync(join(vmDirectory, vmFile.pageServerLog), "a", 0o600);
  try {
    const [command = "", ...args] = program;
    const child = spawn(command, args, {
      stdio: [fd, log, log, "pipe"], // mountDescriptor, settingsDescriptor
      detached: true,
      cwd: vmDirectory,
      env: { ...smallProcess, PATH: path, UV_THREADPOOL_SIZE: threads },
    });
    await once(child, "spawn");
    const settings = child.stdio[settingsDescriptor];
    if (!(settings instanceof Writable)) throw new Fault("internal", "the page server has no settings");
    settings.on("error", () => undefined); // it died: seen by its identity
    child.unref();
    const identity = tryIdentify(child.pid ?? 0);
    if (!identity) throw endedEarly(vmDirectory);
    // Before it can do anything: no process takes it for dead and starts another one meanwhile.
    await recordServer(vmDirectory, identity);
    settings.end(JSON.stringify(config));
    return identity;
  } finally {
    closeSync(log);
  }
}

async function recordServer(vmDirectory: string, server: ProcessIdentity): Promise<void> {
  const before = await tryReadLoading(vmDirectory);
  await writeLoading(vmDirectory, { ...(before ?? nothingLoaded), server });
}

/** Resolves when QEMU can start: what it reads at once is here. */
export async function awaitServing(
  vmDirectory: string,
  server: ProcessIdentity,
  options: Abortable,
): Promise<void> {
  const signal = withDeadline(options.signal, firstMs);
  for (;;) {
    const state = await tryReadLoading(vmDirectory);
    if (state && state.state !== "starting") return;
    if (!isAlive(server)) throw endedEarly(vmDirectory);
    if (!(await sleep(5, { signal }))) {
      options.signal.throwIfAborted();
      throw new Fault(
        "timeout",
        `the machine's first files did not arrive: ${state?.problem || "no answer"}`,
      );
    }
  }
}

function endedEarly(vmDirectory: string): Fault {
  const words = lastLines(join(vmDirectory, vmFile.pageServerLog), 5).join(" | ");
  return new Fault("unavailable", `the page server ended: ${words || "it said nothing"}`);
}

/**
 * A running machine whose page server is dead gets another one, and continues where it waits. With `replaceStuck` so does
 * one whose server cannot load: its settings may be those of an earlier process.
 */
export async function revivePageServer(
  context: QemuContext,
  record: VmRecord,
  { replaceStuck = false }: { readonly replaceStuck?: boolean } = {},
): Promise<ProcessIdentity | undefined> {
  if (!record.lazy || !record.process || !isAlive(record.process)) return undefined;
  const state = await tryReadLoading(context.store.getDirectory(record.id));
  const server = state?.server && isAlive(state.server) ? state.server : undefined;
  if (server && !(replaceStuck && isStuck(state))) return server;
  const fd = await takeDescriptor(record.process.pid, inheritedDescriptor);
  try {
    if (server) await end(server);
    context.log.warn({ vm: record.id }, "page server ended or stuck; another one continues");
    return await startPageServer(context, record, { fd, resumed: true });
  } finally {
    closeSync(fd);
  }
}

/** Gone before the next one is recorded: it writes down who serves. */
async function end(server: ProcessIdentity): Promise<void> {
  signalProcess(server, "SIGKILL");
  while (isAlive(server)) await sleep(5, { signal: never });
}

function isStuck(state: LoadingState | undefined): boolean {
  return state !== undefined && state.state !== "local" && state.problem !== "";
}
