/** A runtime that also runs macOS guests: what concerns one of them goes to `cocoon-macos`, everything else to the engine. */
import { Fault, isFault, type Abortable } from "@cocoon/core";
import type { CocoonCommand } from "../external/command.ts";
import type { VmEvent, VmRuntime } from "../runtime.ts";
import { openMacosCommand } from "./macos-command.ts";
import { tryReadMacosVmId } from "./macos-record.ts";
import { MacosRuntime, type MacosRuntimeParts } from "./macos-runtime.ts";

export interface MacosOptions extends Abortable, Omit<MacosRuntimeParts, "command"> {
  /** The program; called as the present user, who must be allowed to use KVM and to make network devices. */
  readonly command: CocoonCommand;
}

/** `unavailable` when the program does not answer. */
export async function withMacos(runtime: VmRuntime, options: MacosOptions): Promise<VmRuntime> {
  const command = await openMacosCommand(options.command, options);
  const macos = new MacosRuntime({ ...options, command });
  const own = buildOwnMethods(runtime, macos);
  return new Proxy(runtime, {
    get: (target, key) => {
      if (Object.hasOwn(own, key)) return own[key as keyof typeof own];
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== "function") return value;
      const method = value.bind(target) as Method;
      return takesRef.has(String(key)) ? routeByRef(macos, String(key), method) : method;
    },
  });
}

type Method = (ref: string, ...rest: readonly unknown[]) => unknown;

/** Methods whose first argument says which VM is meant. */
const takesRef: ReadonlySet<string> = new Set<Extract<keyof VmRuntime, string>>([
  "start",
  "stop",
  "pause",
  "resume",
  "reset",
  "remove",
  "restore",
  "waitReady",
  "address",
  "dial",
  "stats",
  "exec",
  "openConsole",
  "readConsole",
  "openDisplay",
]);

function routeByRef(macos: MacosRuntime, key: string, method: Method): Method {
  return (ref, ...rest) => {
    const name = tryReadMacosVmId(ref);
    if (name === undefined) return method(ref, ...rest);
    if (key in macos) return (macos[key as keyof MacosRuntime] as Method).call(macos, name, ...rest);
    return Promise.reject(new Fault("notSupported", `${key} is not possible with a macOS guest`));
  };
}

function buildOwnMethods(
  runtime: VmRuntime,
  macos: MacosRuntime,
): Pick<VmRuntime, "describe" | "run" | "list" | "inspect" | "watch"> {
  return {
    describe: async (options) => {
      const description = await runtime.describe(options);
      return { ...description, can: { ...description.can, macos: true } };
    },
    run: (spec, options) => (spec.os === "macos" ? macos.run(spec, options) : runtime.run(spec, options)),
    list: async (options) => [...(await runtime.list(options)), ...(await macos.list(options))],
    inspect: async (ref, options) => {
      const name = tryReadMacosVmId(ref);
      if (name === undefined) return runtime.inspect(ref, options);
      try {
        return await macos.inspect(name, options);
      } catch (error) {
        if (isFault(error, "notFound")) return runtime.inspect(ref, options); // a name may look like such an id
        throw error;
      }
    },
    watch: (options) => watchBoth(runtime, macos, options),
  };
}

async function* watchBoth(
  runtime: VmRuntime,
  macos: MacosRuntime,
  { signal }: Abortable,
): AsyncGenerator<VmEvent, void, void> {
  const stop = new AbortController();
  const options = { signal: AbortSignal.any([signal, stop.signal]) };
  const sources = [runtime.watch(options), macos.watch(options)].map((each) => each[Symbol.asyncIterator]());
  const step = async (source: AsyncIterator<VmEvent>) => ({ source, result: await source.next() });
  const pending = new Map(sources.map((source) => [source, step(source)]));
  try {
    while (pending.size > 0) {
      const { source, result } = await Promise.race(pending.values());
      if (result.done) pending.delete(source);
      else {
        pending.set(source, step(source));
        yield result.value;
      }
    }
  } finally {
    stop.abort();
    await Promise.allSettled(pending.values());
  }
}
