/** Worlds written by hand, and plans read as short lines: for tables of (observed -> actions). */
import {
  annotation,
  finalizer,
  nodeLabel,
  readCocoonHibernation,
  readCocoonSet,
  setAnnotation,
  type CocoonHibernation,
  type CocoonSet,
} from "@cocoon/contract";
import type { Pod } from "@cocoon/kube";
import type { Action, SetPlan } from "../cocoonset/draft.ts";
import { computeMembers, type Members } from "../cocoonset/members.ts";
import { buildPod } from "../cocoonset/pod-template.ts";
import type { Holder, NodeFacts, TagAnswer, ObservedSet } from "../cocoonset/observed-set.ts";
import { readMachine } from "../pod-machine.ts";

export const now = new Date("2026-06-01T12:00:00Z");
export const digest = `sha256:${"a".repeat(64)}`;
export const otherDigest = `sha256:${"b".repeat(64)}`;

export interface SetInput {
  readonly spec?: object;
  readonly agent?: object;
  readonly status?: object;
  readonly annotations?: Record<string, string>;
  readonly metadata?: object;
}

/** Set `a` of namespace `lab`, generation 2. */
export function buildSet({ spec, agent, status, annotations, metadata }: SetInput = {}): CocoonSet {
  return readCocoonSet({
    metadata: {
      name: "a",
      namespace: "lab",
      uid: "set-uid",
      generation: 2,
      creationTimestamp: "2026-05-01T00:00:00Z",
      finalizers: [finalizer.cocoonSet],
      ...(annotations ? { annotations } : {}),
      ...metadata,
    },
    spec: { ...spec, agent: { image: "base:v1", ...agent } },
    ...(status ? { status } : {}),
  });
}

/** How a pod stands, in one word. */
export type How =
  | "ready"
  | "pending"
  | "asleep"
  | "dozing"
  | "failed"
  | "gone-bad"
  | "leaving"
  | "waking"
  | "unschedulable";

export interface PodInput {
  readonly how?: How;
  readonly node?: string;
  readonly annotations?: Record<string, string | undefined>;
  readonly labels?: Record<string, string>;
  readonly readyAt?: string;
  readonly affinityTo?: string;
  readonly recorded?: string;
  /** What its kubelet says that the VM was restored from. */
  readonly restoredDigest?: string;
  readonly restored?: boolean;
}

const states: Readonly<Record<How, string>> = {
  ready: "ready",
  pending: "",
  asleep: "hibernated",
  dozing: "hibernating",
  failed: "failed",
  "gone-bad": "ready",
  leaving: "ready",
  waking: "creating",
  unschedulable: "",
};

/** Pods by their name's last part: `0`, `1`, `box`. */
export type PodInputs = Readonly<Record<string, PodInput | How>>;

export interface ObservedInput extends SetInput {
  readonly pods?: PodInputs;
  readonly tags?: Readonly<Record<string, string | null | Error>>;
  readonly hibernations?: Readonly<Record<string, object>>;
  /** VM names that another owner has. */
  readonly claimed?: readonly string[];
  readonly taken?: Readonly<Record<string, string>>;
  readonly nodes?: Readonly<Record<string, Partial<NodeFacts>>>;
  readonly holders?: Readonly<Record<string, Holder>>;
  readonly sourceProblem?: string;
  readonly now?: Date;
  readonly warm?: readonly string[];
}

export function buildObserved(input: ObservedInput): ObservedSet {
  const set = buildSet(input);
  const members = computeMembers(set);
  const machines = Object.entries(input.pods ?? {}).map(([name, pod]) =>
    readMachine(buildTestPod(set, members, { name, ...(typeof pod === "string" ? { how: pod } : pod) })),
  );
  const answers = Object.entries(input.tags ?? {}).map(([name, answer]): [string, TagAnswer] => [
    `vk-lab-a-${name}`,
    buildAnswer(answer),
  ]);
  return {
    set,
    members,
    machines,
    hibernations: new Map(
      Object.entries(input.hibernations ?? {}).map(([name, each]) => [
        `a-${name}`,
        buildHibernation(`a-${name}`, each),
      ]),
    ),
    taken: new Map(Object.entries(input.taken ?? {})),
    isClaimedElsewhere: (vmName) => input.claimed?.includes(vmName) ?? false,
    node: (name) => {
      const facts = input.nodes?.[name];
      return (
        facts && { ready: true, schedulable: true, pool: "default", cpuClass: "", lacks: () => "", ...facts }
      );
    },
    findHolder: (vmName) => input.holders?.[vmName],
    tags: new Map(answers),
    sourceProblem: input.sourceProblem ?? "",
    retentionDue: true,
    legacyKeys: false,
    now: input.now ?? now,
  };
}

function buildAnswer(answer: string | null | Error): TagAnswer {
  if (answer === null) return { kind: "absent" };
  return typeof answer === "string"
    ? { kind: "there", digest: answer }
    : { kind: "unknown", message: answer.message };
}

export function buildHibernation(
  pod: string,
  { status, metadata, ...spec }: { status?: object; metadata?: object } & object,
): CocoonHibernation {
  return readCocoonHibernation({
    metadata: {
      name: pod,
      namespace: "lab",
      uid: `h-${pod}`,
      generation: 1,
      finalizers: [finalizer.cocoonHibernation],
      ...metadata,
    },
    spec: { podRef: { name: pod }, desire: "Hibernate", ...spec },
    ...(status ? { status } : {}),
  });
}

export function buildTestPod(
  set: ObservedSet["set"],
  members: Members,
  input: PodInput & { readonly name: string },
): Pod {
  const { name, how = "ready", node = "n1", readyAt = "2026-06-01T11:59:50Z" } = input;
  const all = [members.main, ...members.subAgents, ...members.toolboxes, ...members.warm];
  const known = all.find((member) => member.podName === `a-${name}`);
  const member = known ?? {
    ...members.main,
    role: "sub-agent" as const,
    slot: Number(name),
    podName: `a-${name}`,
    vmName: `vk-lab-a-${name}`,
    vm: { ...members.main.vm, vmName: `vk-lab-a-${name}` },
  };
  const sleeping = how === "asleep" || how === "dozing";
  const built = buildPod(set, member, {
    placement: input.affinityTo ? { kind: "required", node: input.affinityTo } : { kind: "anywhere" },
    restore: input.restored ?? false,
    sleep: sleeping ? "suspend" : "",
    legacyKeys: false,
  });
  const live = how === "ready" || how === "leaving" || how === "gone-bad";
  const state = states[how];
  const annotations = {
    ...built.metadata.annotations,
    ...(live ? { [annotation.vmId]: `vm-${name}`, [annotation.ip]: "10.0.0.1" } : {}),
    ...(state === ""
      ? {}
      : { [annotation.lifecycleState]: state, [annotation.lifecycleObservedGeneration]: "2" }),
    ...(how === "failed" ? { [annotation.lifecycleStateMessage]: "it broke" } : {}),
    ...(input.recorded ? { [annotation.snapshotDigest]: input.recorded } : {}),
    ...(input.restoredDigest ? { [annotation.restoredDigest]: input.restoredDigest } : {}),
    ...input.annotations,
  };
  const unschedulable = {
    type: "PodScheduled",
    status: "False",
    reason: "Unschedulable",
    message: "no room",
  };
  return {
    ...built,
    metadata: {
      ...built.metadata,
      uid: `pod-${name}`,
      labels: { ...built.metadata.labels, ...input.labels },
      annotations: Object.fromEntries(
        Object.entries(annotations).filter((entry): entry is [string, string] => entry[1] !== undefined),
      ),
      ...(how === "leaving" ? { deletionTimestamp: "2026-06-01T11:59:00Z" } : {}),
    },
    spec: {
      ...built.spec,
      containers: built.spec?.containers ?? [],
      ...(how === "unschedulable" ? {} : { nodeName: node }),
      nodeSelector: { [nodeLabel.pool]: "default" },
    },
    status: {
      phase: how === "gone-bad" ? "Failed" : "Running",
      conditions:
        how === "unschedulable"
          ? [unschedulable]
          : [
              {
                type: "Ready",
                status: live && how === "ready" ? "True" : "False",
                lastTransitionTime: readyAt,
              },
            ],
      ...(live ? { containerStatuses: [{ name: "agent", state: { running: {} } }] } : {}),
    },
  };
}

/** Each action as one short line. */
export function lines(plan: SetPlan): string[] {
  return plan.actions.map(formatAction);
}

function formatAction(action: Action): string {
  switch (action.kind) {
    case "createPod": {
      const { restore, sleep, placement } = action.options;
      const where = placement.kind === "anywhere" ? "" : ` ${placement.kind} ${placement.node}`;
      return `create ${action.member.podName}${restore ? " restore" : ""}${sleep ? ` asleep(${sleep})` : ""}${where}`;
    }
    case "deletePod":
      return `delete ${action.machine.podName}`;
    case "changePod":
      return changeLine(action);
    case "annotateSet":
      return `note ${Object.keys(action.wanted)
        .filter((key) => key !== setAnnotation.vmNamesUid)
        .map(shortKey)
        .join(" ")}`;
    case "dropSnapshot":
      return `drop ${action.machine.vm.vmName.replace("vk-lab-", "")}`;
    case "releaseSnapshot":
      return `release ${action.vmName.replace("vk-lab-", "")}`;
    case "settleSnapshots":
      return `settle ${action.vmNames.map((name) => `${name.replace("vk-lab-", "")}${action.keep.includes(name) ? "+" : "-"}`).join(" ")}${action.purge ? " purge" : ""}`;
    case "expireSnapshots":
      return `expire ${action.vmNames.length} keep ${action.keep}`;
    case "emitEvent":
      return `emit ${action.event.reason}`;
    case "count":
      return `count ${action.what.metric}`;
    default:
      return action.kind;
  }
}

function changeLine({ machine, annotations }: Extract<Action, { kind: "changePod" }>): string {
  const wanted = annotations[annotation.hibernate];
  if (wanted === "true") return `sleep ${machine.podName} (${annotations[annotation.hibernateReason]})`;
  if (wanted === null) return `wake ${machine.podName}`;
  const keys = Object.keys(annotations).filter((key) => key !== annotation.generation);
  return `change ${machine.podName} ${keys.map(shortKey).join(" ")}`;
}

function shortKey(key: string): string {
  return key.replace(/^.*\//, "");
}

/** A status that remembers machines: name -> state and digest. */
export function memory(
  phase: string,
  machines: Readonly<
    Record<string, { readonly state?: string; readonly digest?: string; readonly node?: string }>
  > = {},
  conditions: readonly object[] = [],
): object {
  return {
    phase,
    observedGeneration: 2,
    agents: Object.entries(machines).map(([slot, { state, digest: copy, node }]) => ({
      slot: Number(slot),
      role: slot === "0" ? "main" : "sub-agent",
      vmName: `vk-lab-a-${slot}`,
      ...(state ? { lifecycleState: state } : {}),
      ...(copy ? { snapshotDigest: copy } : {}),
      ...(node ? { nodeName: node } : {}),
    })),
    conditions,
  };
}

export const migrating = (to: string, more: object = {}): Record<string, string> => ({
  [setAnnotation.migration]: JSON.stringify({ from: "n1", to, startedAt: "2026-06-01T11:59:00Z", ...more }),
});
