/** Starts components in dependency order, sees that they become ready, stops them in reverse. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import {
  Fault,
  isAlive,
  lastLines,
  getErrorMessage,
  sleep,
  stopProcess,
  type Abortable,
  type Exit,
  type ProcessIdentity,
} from "@cocoon/core";
import { dependencyGroups, type Component } from "./component.ts";
import { launchComponent, logPath, type LaunchOptions } from "./launch.ts";
import { readRestartStates, type RestartState } from "./restart-states.ts";
import {
  findRunning,
  computeFingerprint,
  markedProcesses,
  readRecord,
  recordedNames,
  removeRecord,
} from "./run-records.ts";

export interface RunnerOptions extends Abortable, LaunchOptions {
  readonly onProgress?: (name: string, text: string) => void;
  /** Called when a component that this process started ends without being stopped. Only while this process lives. */
  readonly onCrash?: (name: string, message: string) => void;
}

/** Brings all components up; those that already run with the same command line are left alone. */
export async function startComponents(
  components: readonly Component[],
  options: RunnerOptions,
): Promise<void> {
  await mkdir(join(options.directory, "run"), { recursive: true, mode: 0o700 });
  await mkdir(join(options.directory, "logs"), { recursive: true, mode: 0o700 });
  for (const group of dependencyGroups(components)) {
    const results = await Promise.allSettled(group.map((component) => startComponent(component, options)));
    const failures = results.flatMap((result) =>
      result.status === "rejected" ? [result.reason as unknown] : [],
    );
    options.signal.throwIfAborted();
    if (failures.length > 0) throw failures[0];
  }
}

async function startComponent(component: Component, options: RunnerOptions): Promise<void> {
  const { directory, onProgress } = options;
  const running = await findRunning(directory, component.name);
  const record = await readRecord(directory, component.name);
  if (running && record?.fingerprint === computeFingerprint(component)) {
    await waitReady(component, { ...options, identity: running });
    onProgress?.(component.name, "already running");
    return;
  }
  if (running) {
    onProgress?.(component.name, "restarting with new settings");
    await stopProcess(running, { graceMs: component.stopGraceMs ?? 10_000 });
  }
  if (component.prepare) {
    onProgress?.(component.name, "preparing");
    await component.prepare(options);
  }
  onProgress?.(component.name, "starting");
  const program = await launchComponent(component, options);
  let expected = false;
  const exited = program.exited.then((exit) => {
    if (!expected) options.onCrash?.(component.name, crashText(component.name, exit, directory));
    return exit;
  });
  try {
    const began = performance.now();
    await waitReady(component, { ...options, identity: program.identity, exited });
    onProgress?.(component.name, `ready after ${((performance.now() - began) / 1000).toFixed(1)} s`);
  } catch (error) {
    expected = true;
    await stopProcess(program.identity, { graceMs: component.stopGraceMs ?? 10_000 });
    await removeRecord(directory, component.name);
    throw error;
  }
}

interface WaitOptions extends RunnerOptions {
  readonly identity: ProcessIdentity;
  readonly exited?: Promise<Exit>;
}

async function waitReady(component: Component, options: WaitOptions): Promise<void> {
  const deadline = performance.now() + (component.readyTimeoutMs ?? 60_000);
  for (;;) {
    try {
      await component.probe({ signal: AbortSignal.any([options.signal, AbortSignal.timeout(5_000)]) });
      return;
    } catch (error) {
      options.signal.throwIfAborted();
      if (!isAlive(options.identity)) {
        const exit = await options.exited; // a child: known at once
        throw new Fault("unavailable", crashText(component.name, exit, options.directory), { cause: error });
      }
      if (performance.now() > deadline) throw notReady(component, error, options.directory);
    }
    await sleep(50, options);
  }
}

function notReady(component: Component, error: unknown, directory: string): Fault {
  const seconds = (component.readyTimeoutMs ?? 60_000) / 1000;
  return new Fault(
    "timeout",
    `${component.name} is not ready after ${seconds} s (${getErrorMessage(error)}); its last log lines:\n${tail(directory, component.name)}`,
  );
}

function crashText(name: string, exit: Exit | undefined, directory: string): string {
  const how = exit
    ? exit.signal
      ? `was killed by ${exit.signal}`
      : `ended with code ${exit.code}`
    : "ended";
  return `${name} ${how}; its last log lines (${logPath(directory, name)}):\n${tail(directory, name)}`;
}

function tail(directory: string, name: string): string {
  return lastLines(logPath(directory, name), 8)
    .map((line) => `    ${line.slice(0, 400)}`)
    .join("\n");
}

export interface StopOptions {
  readonly directory: string;
  /** Leave other components of this directory alone. */
  readonly onlyListed?: boolean;
  readonly onProgress?: (name: string, text: string) => void;
}

/** Stops what runs, dependants first; then whatever else carries this directory's mark. */
export async function stopComponents(
  components: readonly Pick<Component, "name" | "needs" | "stopGraceMs">[],
  options: StopOptions,
): Promise<void> {
  for (const group of dependencyGroups(components).reverse()) {
    await Promise.all(group.map((component) => stopComponent(component, options)));
  }
  if (options.onlyListed) return;
  const listed = new Set(components.map((component) => component.name));
  const strays = [
    ...(await recordedNames(options.directory)),
    ...markedProcesses(options.directory).map((process) => process.name),
  ];
  for (const name of new Set(strays.filter((each) => !listed.has(each))))
    await stopComponent({ name }, options);
}

async function stopComponent(
  component: Pick<Component, "name" | "stopGraceMs">,
  options: StopOptions,
): Promise<void> {
  const running = await findRunning(options.directory, component.name);
  if (running) {
    options.onProgress?.(component.name, "stopping");
    await stopProcess(running, { graceMs: component.stopGraceMs ?? 10_000 });
    options.onProgress?.(component.name, "stopped");
  }
  await removeRecord(options.directory, component.name);
}

export interface ComponentStatus {
  readonly name: string;
  readonly summary: string;
  /** `restarting`: it ended, and the supervisor starts it again. */
  readonly state: "ready" | "not ready" | "restarting" | "crashed" | "stopped";
  readonly detail: string;
  readonly identity: ProcessIdentity | undefined;
  readonly startedAt: string | undefined;
  readonly restarts: number;
}

/** How a component is now. A record without its process is a crash: `down` removes records. */
export async function componentStatus(
  component: Component,
  { directory, signal }: RunnerOptions,
): Promise<ComponentStatus> {
  const record = await readRecord(directory, component.name);
  const identity = await findRunning(directory, component.name);
  const restart = (await readRestartStates(directory)).get(component.name);
  const base = {
    name: component.name,
    summary: component.summary,
    identity,
    startedAt: record?.startedAt,
    restarts: restart?.restarts ?? 0,
  };
  if (!identity && !record) return { ...base, state: "stopped", detail: "" };
  if (!identity) {
    const crash = crashText(component.name, undefined, directory);
    return restart?.pending
      ? { ...base, state: "restarting", detail: `${pendingText(component.name, restart.pending)}\n${crash}` }
      : { ...base, state: "crashed", detail: crash };
  }
  try {
    await component.probe({ signal: AbortSignal.any([signal, AbortSignal.timeout(3_000)]) });
    return { ...base, state: "ready", detail: "" };
  } catch (error) {
    return { ...base, state: "not ready", detail: getErrorMessage(error) };
  }
}

function pendingText(name: string, { dueAt, reason }: NonNullable<RestartState["pending"]>): string {
  const seconds = Math.max(0, Math.round((Date.parse(dueAt) - Date.now()) / 1000));
  return `${name} is started again ${reason ? `when possible: it ${reason}` : `in ${seconds} s`}`;
}
