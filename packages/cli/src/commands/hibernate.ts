/**
 * hibernate and wake: one machine, by the CocoonHibernation of its pod. The object stays: it says what was wanted last.
 * A machine that sleeps for another reason (idleness, by hand) is woken by a CocoonHibernation of its own.
 */
import {
  apiVersion,
  findCondition,
  hibernationAnnotation,
  getDesiredPhase,
  readHibernate,
  readLifecycle,
  type HibernationAction,
} from "@cocoon/contract";
import { Fault, isFault, sleep } from "@cocoon/core";
import { pods } from "@cocoon/kube";
import { findMachine, getName, tryGet } from "../cluster/find.ts";
import { cocoonHibernations, type HibernationObject } from "../cluster/kinds.ts";
import { findMachineObstacles } from "../cluster/obstacles.ts";
import { openSession, type ClusterOptions, type Session } from "../cluster/session.ts";
import { createWaiter, type Awaited, type Look, type WaitOptions } from "../cluster/wait.ts";
import { shortDigest } from "../output.ts";
import { commandName } from "../invocation.ts";
import { clusterOptions, waitOptions, type CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "hibernate <machine...>",
  summary: "hibernate single machines",
  description:
    "Hibernates single machines, by the CocoonHibernation of each pod. After a failure the same command tries again.",
  options: { ...waitOptions("5m"), ...clusterOptions },
  examples: ["cocoonctl hibernate demo-1", "cocoonctl hibernate demo-1 demo-2 --timeout 2m"],
  run: hibernate,
};

export interface HibernateOptions extends ClusterOptions, WaitOptions {}

export function hibernate(names: readonly string[], options: HibernateOptions): Promise<void> {
  return change(names, "Hibernate", options);
}

export function wake(names: readonly string[], options: HibernateOptions): Promise<void> {
  return change(names, "Wake", options);
}

async function change(
  names: readonly string[],
  desire: HibernationAction,
  options: HibernateOptions,
): Promise<void> {
  const wait = createWaiter(options);
  await using session = await openSession(options);
  const machines = await Promise.all(names.map((name) => findMachine(session, name, { mainOfSet: false })));
  const waits: Awaited[] = [];
  for (const machine of machines) waits.push(await request(session, getName(machine), desire));
  if (!options.wait)
    process.stdout.write(
      machines
        .map((each) => `${getName(each)}: ${desire === "Wake" ? "wake" : "hibernation"} requested\n`)
        .join(""),
    );
  await wait(waits, session);
}

async function request(session: Session, name: string, desire: HibernationAction): Promise<Awaited> {
  const { client, signal, namespace } = session;
  const key = { namespace, name };
  const before = await tryGet(session, cocoonHibernations, key);
  const object = await write(session, { name, desire, before });
  const generation = object?.metadata.generation ?? 0;
  const since = Date.now();
  return {
    name,
    explain: () => findMachineObstacles(session, { machine: name, since }),
    look: async () => {
      if (!object) return { kind: "done", text: `${name}: awake` };
      const now = await client.get(cocoonHibernations, key, { signal });
      return lookAtHibernation(now, { desire, generation, retry: readRetry(object) });
    },
  };
}

interface Request {
  readonly name: string;
  readonly desire: HibernationAction;
  readonly before: HibernationObject | undefined;
}

/** Undefined when there is nothing to do: the machine is awake. */
async function write(session: Session, request: Request): Promise<HibernationObject | undefined> {
  const { client, signal, namespace } = session;
  const { name, desire, before } = request;
  const key = { namespace, name };
  if (!before) {
    if (desire === "Wake" && (await isAwake(session, name))) return undefined;
    return create(session, name, desire);
  }
  if (before.spec.desire !== desire)
    return client.patch(
      cocoonHibernations,
      { key, patch: { type: "merge", body: { spec: { desire } } } },
      { signal },
    );
  if (before.status?.phase === "Failed") {
    const annotations = { [hibernationAnnotation.retry]: new Date().toISOString() };
    return client.patch(
      cocoonHibernations,
      { key, patch: { type: "merge", body: { metadata: { annotations } } } },
      { signal },
    );
  }
  const spent = desire === "Wake" && before.status?.phase === "Active" && !(await isAwake(session, name));
  return spent ? replace(session, name) : before;
}

function create(
  { client, signal, namespace }: Session,
  name: string,
  desire: HibernationAction,
): Promise<HibernationObject> {
  const object: HibernationObject = {
    apiVersion,
    kind: "CocoonHibernation",
    metadata: { namespace, name },
    spec: { podRef: { name }, desire },
  };
  return client.create(cocoonHibernations, object, { signal });
}

/** An object describes one wake; a completed one is replaced for the next. */
async function replace(session: Session, name: string): Promise<HibernationObject> {
  const { client, signal, namespace } = session;
  await client.delete(cocoonHibernations, { namespace, name }, { signal });
  for (let attempt = 0; attempt < 100; attempt += 1) {
    try {
      return await create(session, name, "Wake");
    } catch (error) {
      if (!isFault(error, "alreadyExists")) throw error;
    }
    if (!(await sleep(200, { signal }))) signal.throwIfAborted();
  }
  throw new Fault("timeout", `CocoonHibernation ${name} does not go away; is the operator running?`);
}

async function isAwake(session: Session, name: string): Promise<boolean> {
  const pod = await tryGet(session, pods, { namespace: session.namespace, name });
  const annotations = pod?.metadata.annotations;
  return pod !== undefined && !readHibernate(annotations) && readLifecycle(annotations).state === "ready";
}

function readRetry({ metadata }: HibernationObject): string {
  return metadata.annotations?.[hibernationAnnotation.retry] ?? "";
}

export function lookAtHibernation(
  object: HibernationObject,
  {
    desire,
    generation,
    retry,
  }: { readonly desire: HibernationAction; readonly generation: number; readonly retry: string },
): Look {
  const { phase, observedGeneration = 0, observedRetry = "", conditions } = object.status ?? {};
  if (phase === undefined || observedGeneration < generation || observedRetry !== retry)
    return { kind: "waiting", text: "the operator has not observed it yet" };
  const message = findCondition(conditions, "Ready")?.message ?? "";
  assertPossible(object, { desire, message });
  if (phase === getDesiredPhase(desire)) return { kind: "done", text: doneText(object) };
  return { kind: "waiting", text: message === "" || message === phase ? phase : `${phase}: ${message}` };
}

function doneText(object: HibernationObject): string {
  const { phase, snapshotDigest = "its snapshot" } = object.status ?? {};
  return `${getName(object)}: ${phase === "Active" ? "awake" : `asleep in ${shortDigest(snapshotDigest)}`}`;
}

function assertPossible(
  object: HibernationObject,
  { desire, message }: { readonly desire: HibernationAction; readonly message: string },
): void {
  const name = getName(object);
  const phase = object.status?.phase;
  if (phase === "Failed")
    throw new Fault(
      "internal",
      `${name}: ${message || "failed"}; the same command tries again, \`${commandName()} events ${name}\` tells more`,
    );
  if (phase === "Pending" && desire === "Wake" && message.includes("suspended"))
    throw new Fault("conflict", `${name}: ${message}; wake all of it with: ${commandName()} resume SET`);
}
