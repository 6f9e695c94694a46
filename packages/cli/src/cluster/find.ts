/** Sets and machines by the names that people type. What is not there is named with what may have been meant. */
import { annotation, isMachinePod, label, readText } from "@cocoon/contract";
import { Fault, isFault, getErrorMessage, ignoreFault } from "@cocoon/core";
import { nodes, pods, type KubeObject, type Node, type Pod, type ResourceType } from "@cocoon/kube";
import { didYouMean } from "../near-names.ts";
import { cocoonSets, type SetObject } from "./kinds.ts";
import type { Session } from "./session.ts";
import { commandName } from "../invocation.ts";

/** Enough for any cluster that a person looks at by hand. */
const pageSize = 500;

type Scope = Pick<Session, "client" | "signal">;

export async function listAll<T extends KubeObject>(
  { client, signal }: Scope,
  type: ResourceType<T>,
  options: {
    readonly namespace?: string;
    readonly labelSelector?: string;
    readonly fieldSelector?: string;
  } = {},
): Promise<T[]> {
  const found: T[] = [];
  try {
    for await (const page of client.pages(type, { signal, limit: pageSize, ...options }))
      found.push(...page.items);
  } catch (error) {
    throw isFault(error, "notFound") ? missingKind(type, error) : error;
  }
  return found;
}

function missingKind({ plural, group }: ResourceType<KubeObject>, cause: unknown): Fault {
  return new Fault(
    "notFound",
    `this cluster serves no ${plural}.${group}: Cocoon is not installed there; install it (kubectl apply -f deploy/crds and the parts), or choose another cluster with --kubeconfig or --context`,
    { cause },
  );
}

export async function findSet(session: Session, name: string): Promise<SetObject> {
  const { client, namespace, signal } = session;
  try {
    return await client.get(cocoonSets, { namespace, name }, { signal });
  } catch (error) {
    if (!isFault(error, "notFound")) throw error;
    throw await missingSet(session, name);
  }
}

async function missingSet(session: Session, name: string): Promise<Fault> {
  const { namespace } = session;
  const here = (await listAll(session, cocoonSets, { namespace })).map(getName);
  const owner = here.find((set) => name.startsWith(`${set}-`));
  if (owner !== undefined)
    return new Fault(
      "notFound",
      `there is no set "${name}" in namespace ${namespace}; is it a machine of set ${owner}?`,
    );
  const guess = didYouMean(name, here);
  const elsewhere = guess === "" ? await findElsewhere(session, name) : "";
  return new Fault("notFound", `there is no set "${name}" in namespace ${namespace}${guess}${elsewhere}`);
}

/** Where a set of that name is; nothing when we may not look there. */
async function findElsewhere(session: Session, name: string): Promise<string> {
  try {
    const all = await listAll(session, cocoonSets, { fieldSelector: `metadata.name=${name}` });
    const [first] = all.map(({ metadata }) => metadata.namespace ?? "");
    return first === undefined
      ? `; \`${commandName()} get sets -A\` lists what there is`
      : `; there is one in namespace ${first}: add -n ${first}`;
  } catch {
    return ""; // a hint only: without the right to look there is none
  }
}

export function getName({ metadata }: KubeObject): string {
  return metadata.name ?? "";
}

export async function tryGet<T extends KubeObject>(
  { client, signal }: Scope,
  type: ResourceType<T>,
  key: { readonly namespace?: string; readonly name: string },
): Promise<T | undefined> {
  return ignoreFault("notFound", client.get(type, key, { signal }));
}

export interface FindMachineOptions {
  /** A set's name means its main agent. */
  readonly mainOfSet: boolean;
}

/** The pod of a machine: by its own name, or by the name of the machine (`vk-<namespace>-…`). */
export async function findMachine(session: Session, name: string, options: FindMachineOptions): Promise<Pod> {
  const { namespace } = session;
  const pod = await tryGet(session, pods, { namespace, name });
  if (pod && isMachinePod(pod)) return pod;
  if (pod) throw new Fault("notFound", `pod ${name} is an ordinary pod, not a machine; use kubectl for it`);
  const machines = (await listAll(session, pods, { namespace })).filter(isMachinePod);
  const byVm = machines.find(({ metadata }) => readText(metadata.annotations, annotation.vmName) === name);
  if (byVm) return byVm;
  const set = await tryGet(session, cocoonSets, { namespace, name });
  if (set) return findMainAgent(set, machines, options);
  throw missingMachine(name, {
    namespace,
    machines,
    sets: await listAll(session, cocoonSets, { namespace }),
  });
}

interface Neighbours {
  readonly namespace: string;
  readonly machines: readonly Pod[];
  readonly sets: readonly SetObject[];
}

export function missingMachine(name: string, { namespace, machines, sets }: Neighbours): Fault {
  const names = machines.map(getName);
  const owner = sets.find((set) => name.startsWith(`${getName(set)}-`));
  if (!owner)
    return new Fault(
      "notFound",
      `there is no machine "${name}" in namespace ${namespace}${didYouMean(name, [...names, ...sets.map(getName)])}`,
    );
  const set = getName(owner);
  const fix = wakeHint(owner) || `; \`${commandName()} get ${set}\` shows what it has`;
  return new Fault("notFound", `set ${set} has no pod ${name} now${didYouMean(name, names)}${fix}`);
}

/** A suspended set may have given its pods up. */
function wakeHint(set: SetObject): string {
  return set.status?.phase === "Suspended"
    ? `; it is suspended, wake it with: ${commandName()} resume ${getName(set)}`
    : "";
}

function findMainAgent(set: SetObject, machines: readonly Pod[], { mainOfSet }: FindMachineOptions): Pod {
  const name = getName(set);
  const own = machines.filter(({ metadata }) => metadata.labels?.[label.set] === name);
  const main = own.find(({ metadata }) => metadata.labels?.[label.slot] === "0");
  if (!mainOfSet)
    throw new Fault(
      "badRequest",
      `${name} is a set of machines (${own.map(getName).join(", ") || "none now"}): name one of them, or use suspend and resume for the whole set`,
    );
  if (main) return main;
  throw new Fault(
    "unavailable",
    `set ${name} has no main agent now (${set.status?.phase ?? "its phase is not known yet"})${wakeHint(set)}`,
  );
}

export async function findNode(session: Session, name: string): Promise<Node> {
  const node = await tryGet(session, nodes, { name });
  if (node) return node;
  const names = (await listAll(session, nodes)).map(getName);
  throw new Fault(
    "notFound",
    `there is no node "${name}"${didYouMean(name, names) || `; the nodes are ${names.join(", ") || "none"}`}`,
  );
}

/** For hints and completions: what is not allowed or not there is left out. */
export async function tryList<T>(work: Promise<T[]>): Promise<T[]> {
  try {
    return await work;
  } catch (error) {
    if (isFault(error)) return [];
    throw new Fault("internal", getErrorMessage(error), { cause: error });
  }
}
