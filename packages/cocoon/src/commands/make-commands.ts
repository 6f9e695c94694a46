/** `cocoon vm create|run|clone`. */
import { Fault, isFault } from "@cocoon/core";
import type { CloneSpec, VmRuntime } from "@cocoon/vm";
import { refreshed, report } from "../reports.ts";
import type { CommandSession } from "../session.ts";
import { collect, type Verb } from "../verbs.ts";
import {
  buildCloneSpec,
  buildRunSpec,
  cloneFlags,
  dataDiskHelp,
  runFlags,
  type CloneFlags,
  type RunFlags,
} from "../vm-flags.ts";

export const makeVerbs: readonly Verb[] = [
  makeVerb("create", "make a VM", false),
  makeVerb("run", "make and start a VM", true),
  {
    usage: "clone [snapshot]",
    description: "make a VM that goes on from a snapshot",
    flags: cloneFlags,
    run: cloneVm,
  },
];

function makeVerb(name: string, description: string, start: boolean): Verb {
  return {
    usage: `${name} <image>`,
    description,
    flags: runFlags,
    configure: (declared) => declared.option("--data-disk <spec>", dataDiskHelp, collect, []),
    run: async (session, image: string, flags: RunFlags) => {
      const runtime = await session.runtime(readBridge(flags));
      const made = await runtime
        .run({ ...buildRunSpec(image, flags), start }, session)
        .catch((error: unknown) => unresolved(error, image));
      report(session, made, flags.output);
    },
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

async function cloneVm(
  session: CommandSession,
  snapshot: string | undefined,
  flags: CloneFlags,
): Promise<void> {
  const runtime = await session.runtime(readBridge(flags));
  const source = await chooseSnapshot(runtime, snapshot, { flags, session });
  const name = flags.name ?? `cocoon-clone-${Math.random().toString(36).slice(2, 10)}`;
  try {
    const spec = await withinSnapshot(runtime, { ...buildCloneSpec(source.ref, flags), name }, session);
    const made = await runtime
      .clone(spec, session)
      .catch((error: unknown) => unknownSnapshot(error, source.ref));
    report(session, await refreshed(runtime, made, session), flags.output);
  } finally {
    await source.forget();
  }
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
 * More CPUs or memory than the snapshot has cannot be given to a guest that goes on. Clients that request it
 * want the machine more than the size: it is made as it was saved, with a warning.
 */
async function withinSnapshot(
  runtime: VmRuntime,
  spec: CloneSpec,
  session: CommandSession,
): Promise<CloneSpec> {
  const { config } = await runtime.snapshots
    .inspect(spec.snapshot, session)
    .catch((error: unknown) => unknownSnapshot(error, spec.snapshot));
  const { cpus = 0, memoryBytes = 0, ...rest } = spec;
  const keep = (key: "cpus" | "memoryBytes", requested: number, what: string) => {
    if (requested <= config[key]) return requested > 0 ? { [key]: requested } : {};
    session.say(
      `warning: a clone keeps the ${what} it was saved with (${config[key]}); ${requested} were requested`,
    );
    return {};
  };
  return { ...rest, ...keep("cpus", cpus, "vCPUs"), ...keep("memoryBytes", memoryBytes, "memory") };
}

function unknownSnapshot(error: unknown, ref: string): never {
  if (isFault(error, "notFound"))
    throw new Fault("notFound", `inspect snapshot ${ref}: snapshot not found`, { cause: error });
  throw error;
}

function readBridge(flags: { readonly bridge?: string }): { readonly bridge?: string } {
  return flags.bridge === undefined ? {} : { bridge: flags.bridge };
}
