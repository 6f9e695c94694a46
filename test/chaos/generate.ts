/** Chooses the steps of a random history. The same seed and the same outcomes give the same steps. */
import { Coverage } from "./coverage.ts";
import { generateFaults } from "./generate-faults.ts";
import { isAsleep, listMachines, type Model, type SetModel } from "./model.ts";
import { nodeNames } from "./parts.ts";
import { chance, oneOf, pick, type Random, type Weighted } from "./random-choice.ts";
import type { Fault, Operation, Step } from "./steps.ts";

/** What a host with two cores and emulated guests has room for. */
export const maxMachines = 4;
const setNames = ["alpha", "beta", "gamma", "delta", "epsilon"] as const;

export interface GenerateOptions {
  readonly random: Random;
  /** Operations and faults to choose from, such as `suspend`, `kill` or `kill:etcd`; all when empty. */
  readonly only: readonly string[];
  /** Those to leave out. */
  readonly except: readonly string[];
}

/** These keep the machines of a set: a copy of etcd from before them still knows every machine. */
const keepsMachines: ReadonlySet<string> = new Set([
  "suspend",
  "resume",
  "hibernate",
  "wake",
  "migrate",
  "schedule",
]);

/**
 * A copy of etcd from before these leads back to where the machine is. One from before a move does not: the machine is
 * then kept on its new node until a user removes the pod of the old one (docs/operations.md).
 */
const keepsPlaces: ReadonlySet<string> = new Set(["suspend", "hibernate", "schedule", "resume", "wake"]);
/** A drain or a lost node leaves hibernated machines without a pod: a wake may then choose another node. */
const putsToSleep: ReadonlySet<string> = new Set(["suspend", "hibernate", "schedule"]);

/** How often a disaster that `--only` names is chosen. */
const namedProbability = 0.5;

interface FaultChoice {
  readonly count: number;
  readonly matches?: (fault: Fault) => boolean;
}

export class StepGenerator {
  readonly #options: GenerateOptions;
  readonly #coverage = new Coverage();
  #mayLackPods = false;
  /** Steps until the copy of etcd is put back; undefined when none is planned. */
  #untilRestore: number | undefined;

  constructor(options: GenerateOptions) {
    this.#options = options;
  }

  next(model: Model): Step {
    const step = this.#choose(model);
    this.#coverage.record(step);
    this.#mayLackPods ||=
      step.operations.some(({ kind }) => kind === "drain") ||
      step.faults.some(({ kind }) => kind === "nodeLost");
    return step;
  }

  #choose(model: Model): Step {
    const { random } = this.#options;
    if (listMachines(model).length < 2) return { operations: this.#firstOperations(model), faults: [] };
    if (this.#untilRestore !== undefined) return this.#nextBeforeRestore(model);
    // One killed part and nothing else: how long the platform needs to recover.
    if (chance(random, 0.2))
      return { operations: [], faults: this.#faults(model, [], { count: 1, matches: isKill }) };
    if (this.#isDue({ kind: "etcdRestore" }, 0.06)) {
      this.#untilRestore = oneOf(random, [1, 1, 2]);
      const operations = this.#operations(model, this.#keepsPlaces());
      return { copiesEtcd: true, operations, faults: this.#faults(model, operations, { count: 2 }) };
    }
    const lost: Fault = { kind: "nodeLost", node: oneOf(random, nodeNames) };
    if (this.#isDue(lost, 0.03)) return this.#disaster(model, lost);
    const operations = this.#operations(model);
    return {
      operations,
      faults: this.#faults(model, operations, { count: oneOf(random, [3, 4, 5, 5, 6, 6, 8]) }),
    };
  }

  /** By chance, often when `--only` names it, and certainly when it has not occurred for long. */
  #isDue(fault: Fault, probability: number): boolean {
    const { random, only } = this.#options;
    const chosen = chance(random, only.includes(fault.kind) ? namedProbability : probability);
    return (chosen || this.#coverage.isOverdue(fault.kind)) && this.#isAllowed(fault);
  }

  #firstOperations(model: Model): Operation[] {
    const [first, second] = setNames.filter((name) => !model.sets[name]);
    if (first === undefined) return [];
    const empty = listMachines(model).length === 0;
    return [
      { kind: "create", set: first, replicas: 0 },
      ...(empty && second ? [{ kind: "create", set: second, replicas: 0 } as const] : []),
    ];
  }

  /** After the copy of etcd only operations that it can forget; then it is put back. */
  #nextBeforeRestore(model: Model): Step {
    const left = (this.#untilRestore ?? 1) - 1;
    this.#untilRestore = left > 0 ? left : undefined;
    if (left <= 0) return this.#disaster(model, { kind: "etcdRestore" });
    const operations = this.#operations(model, this.#keepsPlaces());
    return { operations, faults: this.#faults(model, operations, { count: 2 }) };
  }

  #keepsPlaces(): ReadonlySet<string> {
    return this.#mayLackPods ? putsToSleep : keepsPlaces;
  }

  #disaster(model: Model, fault: Fault): Step {
    const { random } = this.#options;
    const kinds = fault.kind === "etcdRestore" ? this.#keepsPlaces() : keepsMachines;
    const operations = this.#operations(model, kinds).slice(0, 1);
    return { operations, faults: [{ ...fault, afterMs: Math.round(random() * 4_000) }] };
  }

  #faults(
    model: Model,
    operations: readonly Operation[],
    { count, matches = () => true }: FaultChoice,
  ): Step["faults"] {
    const isAllowed = (fault: Fault) => matches(fault) && this.#isAllowed(fault);
    return generateFaults(model, operations, { random: this.#options.random, count, isAllowed });
  }

  /** One to three operations on different sets. */
  #operations(model: Model, kinds?: ReadonlySet<string>): Operation[] {
    const { random } = this.#options;
    const count = oneOf(random, [1, 2, 2, 3]);
    const found: Operation[] = [];
    const used = new Set<string>();
    for (let index = 0; index < count; index += 1) {
      const choices = listOperations(model, random, used).filter(
        ({ value }) => (kinds?.has(value.kind) ?? true) && this.#isAllowed(value),
      );
      const operation = pick(random, this.#coverage.prefer(choices));
      if (!operation) break;
      // A drain acts on every machine of its node: it has the step for itself.
      if (operation.kind === "drain") return found.length === 0 ? [operation] : found;
      found.push(operation);
      for (const name of listSets(operation)) used.add(name);
    }
    return found;
  }

  #isAllowed(value: Operation | Fault): boolean {
    const { only, except } = this.#options;
    const names = [value.kind, `${value.kind}:${getDetail(value)}`];
    return (
      (only.length === 0 || names.some((name) => only.includes(name))) &&
      !names.some((name) => except.includes(name))
    );
  }
}

function isKill({ kind }: Fault): boolean {
  return kind === "kill";
}

function getDetail(value: Operation | Fault): string {
  if (value.kind === "registry") return value.fault;
  return "part" in value ? value.part : "";
}

function listSets(operation: Operation): string[] {
  const ofPod = "pod" in operation ? [operation.pod.replace(/-\d+$/, "")] : [];
  return [
    ...ofPod,
    ...("set" in operation ? [operation.set] : []),
    ...("as" in operation ? [operation.as] : []),
  ];
}

function listOperations(model: Model, random: Random, used: ReadonlySet<string>): Weighted<Operation>[] {
  const machines = listMachines(model);
  // Operations of the same step that add machines are not in the model yet.
  const room = used.size === 0 ? maxMachines - machines.length : 0;
  const sets = Object.values(model.sets).filter(({ name }) => !used.has(name));
  const name = setNames.find((each) => !model.sets[each] && !used.has(each));
  const canAdd = name !== undefined && room > 0;
  const found: Weighted<Operation>[] = sets.flatMap((set) => listSetOperations(set, room, random));
  if (canAdd) {
    found.push({ weight: 4, value: { kind: "create", set: name, replicas: 0 } });
    const ended = Object.keys(model.ended).filter(
      (pod) => !machines.some(({ machine }) => machine.pod === pod),
    );
    if (ended.length > 0)
      found.push({ weight: 8, value: { kind: "restore", pod: oneOf(random, ended), as: name } });
    const sleeping = sets.find((set) => set.suspended && set.machines[`${set.name}-0`]?.token !== "");
    if (sleeping) found.push({ weight: 5, value: { kind: "clone", pod: `${sleeping.name}-0`, as: name } });
  }
  if (used.size === 0 && machines.some(({ set, machine }) => !isAsleep(set, machine)))
    found.push({ weight: 3, value: { kind: "drain", node: oneOf(random, nodeNames) } });
  return found;
}

function listSetOperations(set: SetModel, room: number, random: Random): Weighted<Operation>[] {
  const name = set.name;
  if (set.suspended)
    return [
      { weight: 9, value: { kind: "resume", set: name } },
      { weight: 1, value: { kind: "delete", set: name } },
    ];
  const sleeping = Object.values(set.machines).find((machine) => machine.asleep);
  const awake = Object.values(set.machines).filter((machine) => !machine.asleep);
  const found: Weighted<Operation>[] = [
    { weight: 7, value: { kind: "suspend", set: name } },
    { weight: 1, value: { kind: "schedule", set: name } },
    { weight: 3, value: { kind: "delete", set: name } },
  ];
  if (sleeping) found.push({ weight: 9, value: { kind: "wake", pod: sleeping.pod } });
  if (awake.length > 0)
    found.push({ weight: 4, value: { kind: "hibernate", pod: oneOf(random, awake).pod } });
  if (sleeping) return found;
  found.push({ weight: 4, value: { kind: "migrate", set: name, node: oneOf(random, nodeNames) } });
  if (!set.isRestored) found.push({ weight: 1.5, value: { kind: "rollout", set: name } });
  if (set.replicas > 0) found.push({ weight: 2, value: { kind: "scale", set: name, replicas: 0 } });
  else if (room > 0) found.push({ weight: 3, value: { kind: "scale", set: name, replicas: 1 } });
  return found;
}
