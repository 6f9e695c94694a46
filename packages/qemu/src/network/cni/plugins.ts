/** Runs CNI plugins by the conventions of the specification, version 1.1: a list of plugins in order, each result the next input. */
import { access, constants } from "node:fs/promises";
import { join } from "node:path";
import { Fault, isFault, type Abortable } from "@cocoon/core";
import * as z from "zod";
import { buildPluginInput, isAtLeast, type Conflist, type PluginConfig } from "./conflist.ts";
import { runProgram } from "./run-program.ts";

type CniCommand = "ADD" | "DEL" | "CHECK" | "GC";

export interface PluginOptions {
  /** Directories with plugins, the first wins. */
  readonly binDirectories: readonly string[];
  /** For one call of one plugin. */
  readonly timeoutMs: number;
  /** Told how each call of a plugin ended. */
  readonly onCall?: (call: PluginCall) => void;
}

export interface PluginCall {
  readonly command: CniCommand;
  readonly plugin: string;
  readonly result: "ok" | "failed" | "timeout";
  readonly tookMs: number;
}

/** One interface of one machine, as plugins are told of it. */
export interface AttachmentTarget {
  readonly containerId: string;
  /** Path of the network namespace; empty when it is gone. */
  readonly netns: string;
  readonly ifName: string;
  /** CNI_ARGS, such as "K8S_POD_NAME=demo". */
  readonly args: string;
  readonly runtimeConfig: Readonly<Record<string, unknown>>;
}

/** As a plugin says it; only what we read is checked. */
export type RawResult = Readonly<Record<string, unknown>>;

const resultSchema = z.record(z.string(), z.unknown());
const errorSchema = z.looseObject({
  code: z.number(),
  msg: z.string(),
  details: z.string().optional(),
});

/** Of the specification: the command may succeed when it is repeated. */
const tryAgainLater = 11;

export class CniPlugins {
  readonly #options: PluginOptions;

  constructor(options: PluginOptions) {
    this.#options = options;
  }

  /**
   * Tells the result of each plugin, the last of which counts: `del` needs the newest one whenever we die. After a failure
   * what was made is removed by `del`.
   */
  async add(
    list: Conflist,
    target: AttachmentTarget,
    { onResult, ...options }: Abortable & { readonly onResult: (result: RawResult) => Promise<void> },
  ): Promise<void> {
    let result: RawResult | undefined;
    for (const plugin of list.plugins) {
      const more = { runtimeConfig: target.runtimeConfig, ...(result ? { prevResult: result } : {}) };
      const call = {
        command: "ADD",
        plugin,
        list,
        target,
        input: buildPluginInput(list, plugin, more),
      } as const;
      result = readResult(plugin, await this.#call(call, options));
      await onResult(result);
    }
  }

  /** In reverse order. Repeatable; a plugin must not mind what is already gone. */
  async del(
    list: Conflist,
    target: AttachmentTarget & { readonly result?: RawResult },
    options: Abortable,
  ): Promise<void> {
    const { runtimeConfig, result } = target;
    const prevResult = isAtLeast(list, "0.4.0") && result ? { prevResult: result } : {};
    for (const plugin of list.plugins.toReversed()) {
      const input = buildPluginInput(list, plugin, { runtimeConfig, ...prevResult });
      await this.#call({ command: "DEL", plugin, list, target, input }, options);
    }
  }

  /** Throws when a plugin finds that the interface is not as it was made. Older or opted-out lists have no check. */
  async check(
    list: Conflist,
    target: AttachmentTarget & { readonly result: RawResult },
    options: Abortable,
  ): Promise<void> {
    if (!isAtLeast(list, "0.4.0") || list.disableCheck) return;
    for (const plugin of list.plugins) {
      const more = { runtimeConfig: target.runtimeConfig, prevResult: target.result };
      const input = buildPluginInput(list, plugin, more);
      await this.#call({ command: "CHECK", plugin, list, target, input }, options);
    }
  }

  /** Lets plugins remove what belongs to none of these attachments; lists before 1.1 have no such command. */
  async gc(
    list: Conflist,
    valid: readonly { readonly containerID: string; readonly ifname: string }[],
    options: Abortable,
  ): Promise<void> {
    if (!isAtLeast(list, "1.1.0") || list.disableGC) return;
    for (const plugin of list.plugins) {
      const input = buildPluginInput(list, plugin, { runtimeConfig: {}, validAttachments: valid });
      await this.#call({ command: "GC", plugin, list, input }, options);
    }
  }

  /** Names of plugins of the list that are in none of the directories. */
  async findMissing(list: Conflist): Promise<string[]> {
    const types = [...new Set(list.plugins.flatMap((plugin) => [plugin.type, ...listIpam(plugin)]))];
    const found = await Promise.all(types.map((type) => this.#tryFind(type)));
    return types.filter((_type, index) => found[index] === undefined);
  }

  async #call(call: Call, { signal }: Abortable): Promise<string> {
    const began = performance.now();
    const report = (result: PluginCall["result"]) => {
      const { command, plugin } = call;
      const tookMs = performance.now() - began;
      this.#options.onCall?.({ command, plugin: plugin.type, result, tookMs });
    };
    try {
      const stdout = await this.#run(call, signal);
      report("ok");
      return stdout;
    } catch (error) {
      report(isFault(error, "timeout") ? "timeout" : "failed");
      throw error;
    }
  }

  async #run({ command, plugin, list, target, input }: Call, signal: AbortSignal): Promise<string> {
    const path = await this.#tryFind(plugin.type);
    const { binDirectories, timeoutMs } = this.#options;
    if (path === undefined)
      throw new Fault(
        "unavailable",
        `CNI plugin ${plugin.type} of network "${list.name}" is not in ${binDirectories.join(" or ")}; Debian's package is containernetworking-plugins`,
      );
    const what = `CNI plugin ${plugin.type} (${command}, network "${list.name}")`;
    const env = {
      // oxlint-disable-next-line node/no-process-env -- plugins run iptables and the like
      PATH: process.env["PATH"] ?? "/usr/sbin:/usr/bin:/sbin:/bin",
      CNI_COMMAND: command,
      CNI_PATH: binDirectories.join(":"),
      ...(target ? formatTarget(target) : {}),
    };
    const run = { command: [path], env, input: JSON.stringify(input), timeoutMs, what, signal } as const;
    const { code, stdout, stderr } = await runProgram(run);
    if (code === 0) return stdout;
    throw readFailure(what, stdout, stderr.trim() || `exit code ${code}`);
  }

  async #tryFind(type: string): Promise<string | undefined> {
    for (const directory of this.#options.binDirectories) {
      const path = join(directory, type);
      const isThere = await access(path, constants.X_OK).then(
        () => true,
        () => false,
      );
      if (isThere) return path;
    }
    return undefined;
  }
}

interface Call {
  readonly command: CniCommand;
  readonly plugin: PluginConfig;
  readonly list: Conflist;
  readonly target?: AttachmentTarget;
  readonly input: Record<string, unknown>;
}

function listIpam(plugin: PluginConfig): string[] {
  const ipam = z.looseObject({ type: z.string() }).safeParse(plugin["ipam"]);
  return ipam.success ? [ipam.data.type] : [];
}

function formatTarget({ containerId, netns, ifName, args }: AttachmentTarget): Record<string, string> {
  return {
    CNI_CONTAINERID: containerId,
    CNI_NETNS: netns,
    CNI_IFNAME: ifName,
    ...(args === "" ? {} : { CNI_ARGS: args }),
  };
}

function readResult({ type }: PluginConfig, stdout: string): RawResult {
  try {
    return resultSchema.parse(JSON.parse(stdout));
  } catch (error) {
    throw new Fault("internal", `CNI plugin ${type} answered what is no result: ${stdout.slice(0, 200)}`, {
      cause: error,
    });
  }
}

/** A full pool and "try again later" may pass; all else stays until an administrator changes it, and is retried the same way. */
function readFailure(what: string, stdout: string, otherwise: string): Fault {
  let failure: z.infer<typeof errorSchema> | undefined;
  try {
    failure = errorSchema.parse(JSON.parse(stdout));
  } catch {
    failure = undefined; // not all plugins answer as they should
  }
  if (!failure) return new Fault("internal", `${what} failed: ${otherwise.slice(-500)}`);
  const details = failure.details ? ` (${failure.details})` : "";
  const mayPass = failure.code === tryAgainLater || isExhausted(failure.msg);
  return new Fault(mayPass ? "unavailable" : "internal", `${what} failed: ${failure.msg}${details}`);
}

/** As host-local, whereabouts, Calico and Cilium say it. */
function isExhausted(message: string): boolean {
  return /no (?:more )?(?:IP |free )?(?:IP )?addresses available|range is full|pool exhausted|failed to request IPv4 addresses/i.test(
    message,
  );
}
