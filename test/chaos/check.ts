/** Compares the platform with the model: first until it has converged, then whether every promise holds. */
import { sleep } from "@cocoon/core";
import { listMachineProcesses, listStoredMachines } from "./machines.ts";
import {
  computePodNames,
  computeVmName,
  isAsleep,
  listMachines,
  type MachineModel,
  type Model,
  type SetModel,
} from "./model.ts";
import type { GuestState } from "./oracle.ts";
import type { KubeItem, Platform } from "./platform.ts";

export const violationKinds = [
  "lost",
  "duplicate",
  "old memory",
  "foreign",
  "left behind",
  "untrue",
  "stuck",
] as const;
type ViolationKind = (typeof violationKinds)[number];

export interface Violation {
  readonly kind: ViolationKind;
  readonly text: string;
}

const stateKey = "vm.cocoonstack.io/lifecycle-state";
const messageKey = "vm.cocoonstack.io/lifecycle-state-message";
const setLabel = "cocoonset.cocoonstack.io/name";

/** Why the platform is not yet as requested; empty when it is. */
export async function findUnsettled(platform: Platform, model: Model): Promise<string[]> {
  const [sets, pods, unready] = await Promise.all([
    platform.listSets(),
    platform.listPods(),
    platform.probes.findUnready(),
  ]);
  const unknown = sets.filter(({ metadata }) => !model.sets[metadata.name]);
  const known = new Set(Object.values(model.sets).flatMap((set) => computePodNames(set)));
  const extra = pods.filter(({ metadata }) => !known.has(metadata.name));
  return [
    ...unready,
    ...unknown.map(({ metadata }) => `set ${metadata.name} is still there`),
    ...extra.map(({ metadata }) => `pod ${metadata.name} is still there`),
    ...Object.values(model.sets).flatMap((set) =>
      findUnsettledInSet(
        set,
        sets.find(({ metadata }) => metadata.name === set.name),
        pods.filter(({ metadata }) => metadata.labels?.[setLabel] === set.name),
      ),
    ),
  ];
}

function findUnsettledInSet(set: SetModel, object: KubeItem | undefined, pods: KubeItem[]): string[] {
  if (!object) return [`set ${set.name} is missing`];
  const { status, metadata } = object;
  const allAwake = Object.values(set.machines).every((machine) => !isAsleep(set, machine));
  const phase = set.suspended ? "Suspended" : allAwake ? "Running" : undefined;
  const wrong: string[] = [];
  if (status?.observedGeneration !== metadata.generation) wrong.push(`set ${set.name} is not observed`);
  if (phase !== undefined && status?.phase !== phase)
    wrong.push(`set ${set.name} is ${status?.phase ?? "without phase"}, not ${phase}`);
  for (const machine of Object.values(set.machines)) {
    const pod = pods.find((each) => each.metadata.name === machine.pod);
    // A suspended machine needs no pod: a drain or a lost node removes it, and the operator does not boot a machine only
    // to hibernate it again. It is kept by its snapshot (checkRegistry looks for it) and by the set's status, from which
    // the next resume makes its pod. A machine that the status does not list is forgotten, and a violation.
    const listed = status?.agents?.find(
      ({ vmName }) => vmName === computeVmName(machine.pod),
    )?.lifecycleState;
    if (!pod && set.suspended && listed === "hibernated") continue;
    wrong.push(...findUnsettledMachine(set, machine, pod));
  }
  return wrong;
}

function findUnsettledMachine(set: SetModel, machine: MachineModel, pod: KubeItem | undefined): string[] {
  if (!pod) return [`pod ${machine.pod} is missing`];
  if (pod.metadata.deletionTimestamp !== undefined) return [`pod ${machine.pod} is terminating`];
  const state = pod.metadata.annotations?.[stateKey];
  const wanted = isAsleep(set, machine) ? "hibernated" : "ready";
  if (state !== wanted)
    return [`${machine.pod} is ${state ?? "unreported"}: ${pod.metadata.annotations?.[messageKey] ?? ""}`];
  const ready = pod.status?.conditions?.find(({ type }) => type === "Ready")?.status;
  if (wanted === "ready" && ready !== "True") return [`pod ${machine.pod} is not Ready`];
  const isMain = machine.pod === `${set.name}-0`;
  if (isMain && set.node !== undefined && pod.spec.nodeName !== set.node)
    return [`${machine.pod} is on ${pod.spec.nodeName ?? "no node"}, not ${set.node}`];
  return [];
}

/** Waits until the platform is as requested; what still differs after that time is a violation. */
export async function settle(platform: Platform, model: Model, timeoutMs: number): Promise<Violation[]> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const unsettled = await findUnsettled(platform, model);
    if (unsettled.length === 0) return [];
    if (performance.now() > deadline) return unsettled.map((text) => ({ kind: "stuck", text }) as const);
    await sleep(250, { signal: platform.signal });
  }
}

/** Everything that must hold once the platform has converged. */
export async function checkPromises(platform: Platform, model: Model): Promise<Violation[]> {
  const duplicates = platform.duplicates.take().map((text) => ({ kind: "duplicate", text }) as const);
  return [
    ...duplicates,
    ...(await checkHost(platform, model)),
    ...(await checkRegistry(platform, model)),
    ...(await checkGuests(platform, model)),
  ];
}

/** The host holds exactly the machines that are awake. A store may need a moment to clean up. */
async function checkHost(platform: Platform, model: Model): Promise<Violation[]> {
  const awake = listMachines(model)
    .filter(({ set, machine }) => !isAsleep(set, machine))
    .map(({ machine }) => computeVmName(machine.pod))
    .toSorted();
  const look = (): Violation[] => {
    const stored = listStoredMachines(platform.home).map(({ vmName }) => vmName);
    const running = listMachineProcesses(platform.home).map(({ vmName }) => vmName);
    return [
      ...stored
        .filter((name) => !awake.includes(name))
        .map((name) => ({ kind: "left behind", text: `VM ${name} is still on a node` }) as const),
      ...awake
        .filter((name) => !running.includes(name))
        .map((name) => ({ kind: "untrue", text: `${name} is reported ready and has no process` }) as const),
      ...running
        .filter((name) => !stored.includes(name))
        .map((name) => ({ kind: "left behind", text: `a QEMU process of ${name} has no record` }) as const),
    ];
  };
  return checkAgain(platform, async () => look());
}

/** What sleeps can be fetched; what is awake has left no snapshot that a later wake could take for the machine. */
async function checkRegistry(platform: Platform, model: Model): Promise<Violation[]> {
  return checkAgain(platform, async () => {
    const found: Violation[] = [];
    for (const { set, machine } of listMachines(model)) {
      const name = computeVmName(machine.pod);
      const { status } = await platform.registry.lookup(`/v2/${name}/manifests/hibernate`);
      const asleep = isAsleep(set, machine);
      if (asleep && status !== 200)
        found.push({ kind: "lost", text: `${name} sleeps and its snapshot answers ${status}` });
      if (!asleep && status === 200)
        found.push({ kind: "left behind", text: `${name} is awake and tag hibernate is still there` });
    }
    return found;
  });
}

/** The operator gives the kubelet half a minute before it drops a snapshot itself. */
const cleanUpMs = 75_000;

async function checkAgain(platform: Platform, look: () => Promise<Violation[]>): Promise<Violation[]> {
  const deadline = performance.now() + cleanUpMs;
  for (;;) {
    const found = await look();
    if (found.length === 0 || performance.now() > deadline) return found;
    await sleep(500, { signal: platform.signal });
  }
}

/** A status may be a moment behind a VM that has just ended. */
const statusDelayMs = 60_000;

async function readGuestSoon(platform: Platform, pod: string): Promise<GuestState> {
  const deadline = performance.now() + statusDelayMs;
  for (;;) {
    try {
      return await platform.readGuest(pod);
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
    await sleep(500, { signal: platform.signal });
  }
}

async function checkGuests(platform: Platform, model: Model): Promise<Violation[]> {
  const awake = listMachines(model).filter(({ set, machine }) => !isAsleep(set, machine));
  const found = await Promise.all(
    awake.map(async ({ machine }): Promise<Violation[]> => {
      try {
        const state = await readGuestSoon(platform, machine.pod);
        const violations = checkGuestState(machine, state);
        machine.bootId = state.bootId;
        machine.counter = state.counter;
        if (violations.length === 0) machine.memoryMayBeLost = false;
        return violations;
      } catch (error) {
        const text = `${machine.pod} is reported ready and does not answer: ${String(error)}`;
        return [{ kind: "untrue", text }];
      }
    }),
  );
  return found.flat();
}

/** A fork that has no token of its own yet holds one of the machine it was forked from, and its own name. */
function checkFork(pod: string, source: string, state: GuestState): Violation[] {
  const found: Violation[] = [];
  if (state.hostname !== computeVmName(pod))
    found.push({ kind: "foreign", text: `${pod} has the host name "${state.hostname}"` });
  if (!state.diskToken.startsWith(`${source}.`) || !state.diskIntact)
    found.push({
      kind: "lost",
      text: `disk of ${pod}, forked from ${source}, holds "${state.diskToken}"${state.diskIntact ? "" : " and is damaged"}`,
    });
  return found;
}

/** Pure: what a machine holds against what it must hold. */
export function checkGuestState(machine: MachineModel, state: GuestState): Violation[] {
  const { pod, token, forkedFrom } = machine;
  if (token === "") return forkedFrom === undefined ? [] : checkFork(pod, forkedFrom, state);
  const found: Violation[] = [];
  if (state.hostname !== computeVmName(pod))
    found.push({ kind: "foreign", text: `${pod} has the host name "${state.hostname}"` });
  if (state.diskToken !== token) {
    const [owner] = token.split(".");
    const foreign = state.diskToken !== "" && !state.diskToken.startsWith(`${owner}.`);
    const text = `disk of ${pod} holds "${state.diskToken}", expected "${token}"`;
    found.push({ kind: foreign ? "foreign" : "lost", text });
  } else if (!state.diskIntact) found.push({ kind: "lost", text: `disk content of ${pod} is damaged` });
  const remembers = state.memoryToken === token;
  if (!remembers && state.memoryToken !== "")
    found.push({
      kind: "old memory",
      text: `memory of ${pod} holds "${state.memoryToken}", expected "${token}"`,
    });
  if (!remembers && state.memoryToken === "" && !machine.memoryMayBeLost)
    found.push({ kind: "lost", text: `memory of ${pod} is gone and nothing ended it by force` });
  if (remembers && state.counter < machine.counter)
    found.push({
      kind: "old memory",
      text: `the process in ${pod} counted to ${machine.counter} before and to ${state.counter} now`,
    });
  if (remembers && state.bootId !== machine.bootId)
    found.push({ kind: "untrue", text: `${pod} booted again and yet holds memory of the boot before` });
  return found;
}
