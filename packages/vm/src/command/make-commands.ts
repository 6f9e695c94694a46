/** `cocoon vm create|run|clone`. */
import { Fault, isFault } from "@cocoon/core";
import type { Command } from "commander";
import type { VmRuntime } from "../runtime.ts";
import { refreshed, report, type Open } from "./reports.ts";
import type { CommandSession } from "./session.ts";
import {
  addCloneFlags,
  addRunFlags,
  cloneSpecOf,
  runSpecOf,
  type CloneFlags,
  type RunFlags,
} from "./vm-flags.ts";

export function addMakeCommands(vm: Command, open: Open): void {
  addRunFlags(vm.command("create")).argument("<image>").description("make a VM").action(makeVm(open, false));
  addRunFlags(vm.command("run"))
    .argument("<image>")
    .description("make and start a VM")
    .action(makeVm(open, true));
  addCloneFlags(vm.command("clone"))
    .argument("[snapshot]")
    .description("make a VM that goes on from a snapshot")
    .action(cloneVm(open));
}

function makeVm(open: Open, start: boolean) {
  return async (image: string, flags: RunFlags, command: Command): Promise<void> => {
    await using session = open(command);
    const runtime = await session.runtime(bridgeOf(flags));
    const made = await runtime
      .run({ ...runSpecOf(image, flags), start }, session)
      .catch((error: unknown) => unresolved(error, image));
    report(session, made, flags.output);
  };
}

/** The words that clients know for an image that is not local. */
function unresolved(error: unknown, image: string): never {
  if (isFault(error, "notFound"))
    throw new Fault("notFound", `image "${image}" not resolved: oci: not found; cloudimg: not found`, {
      cause: error,
    });
  throw error;
}

function cloneVm(open: Open) {
  return async (snapshot: string | undefined, flags: CloneFlags, command: Command): Promise<void> => {
    await using session = open(command);
    const runtime = await session.runtime(bridgeOf(flags));
    const source = await chooseSnapshot(runtime, snapshot, { flags, session });
    const name = flags.name ?? `cocoon-clone-${Math.random().toString(36).slice(2, 10)}`;
    try {
      const spec = await withinSnapshot(runtime, { ...cloneSpecOf(source.ref, flags), name }, session);
      const made = await runtime
        .clone(spec, session)
        .catch((error: unknown) => unknownSnapshot(error, source.ref));
      report(session, await refreshed(runtime, made, session), flags.output);
    } finally {
      await source.forget();
    }
  };
}

/** A named snapshot, or one that lies in a directory and is imported for the moment. */
async function chooseSnapshot(
  runtime: VmRuntime,
  snapshot: string | undefined,
  { flags, session }: { readonly flags: CloneFlags; readonly session: CommandSession },
): Promise<{ readonly ref: string; forget(): Promise<void> }> {
  if (flags.fromDir !== undefined) {
    const { id } = await runtime.snapshots.importDirectory(flags.fromDir, {
      name: "",
      signal: session.signal,
    });
    return { ref: id, forget: () => runtime.snapshots.remove(id, session) };
  }
  if (snapshot === undefined) throw new Fault("invalid", "a snapshot or --from-dir is required");
  return { ref: snapshot, forget: () => Promise.resolve() };
}

/**
 * More CPUs or memory than the snapshot has cannot be given to a guest that goes on. Clients that ask for it
 * want the machine more than the size: it is made as it was saved, and they are told.
 */
async function withinSnapshot<
  T extends { readonly snapshot: string; readonly cpus?: number; readonly memoryBytes?: number },
>(
  runtime: VmRuntime,
  spec: T,
  session: CommandSession,
): Promise<Omit<T, "cpus" | "memoryBytes"> & { cpus?: number; memoryBytes?: number }> {
  const snapshot = await runtime.snapshots
    .inspect(spec.snapshot, session)
    .catch((error: unknown) => unknownSnapshot(error, spec.snapshot));
  const { cpus, memoryBytes, ...rest } = spec;
  const { config } = snapshot;
  const tooMany = (asked: number | undefined, has: number, what: string) => {
    if (asked !== undefined && asked > has)
      session.say(`warning: a clone keeps the ${what} it was saved with (${has}); ${asked} were asked for`);
    return asked !== undefined && asked <= has ? asked : undefined;
  };
  const [keptCpus, keptMemory] = [
    tooMany(cpus, config.cpus, "vCPUs"),
    tooMany(memoryBytes, config.memoryBytes, "memory"),
  ];
  return {
    ...rest,
    ...(keptCpus === undefined ? {} : { cpus: keptCpus }),
    ...(keptMemory === undefined ? {} : { memoryBytes: keptMemory }),
  };
}

function unknownSnapshot(error: unknown, ref: string): never {
  if (isFault(error, "notFound"))
    throw new Fault("notFound", `inspect snapshot ${ref}: snapshot not found`, { cause: error });
  throw error;
}

function bridgeOf(flags: { readonly bridge?: string }): { readonly bridge?: string } {
  return flags.bridge === undefined ? {} : { bridge: flags.bridge };
}
