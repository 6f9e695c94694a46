/** get: sets and machines, where they run and in which state. */
import { Fault } from "@cocoon/core";
import { pods } from "@cocoon/kube";
import { isMachinePod, label } from "@cocoon/contract";
import { findMachine, findSet, listAll, getName, tryGet } from "../cluster/find.ts";
import { cocoonSets, type SetObject } from "../cluster/kinds.ts";
import { machineRows, type MachineRow } from "../cluster/machine-rows.ts";
import { openSession, type ClusterOptions, type Session } from "../cluster/session.ts";
import { machineTable, setTable, problemsText } from "../cluster/tables.ts";
import { readFormat, serialize, withoutManagedFields, type OutputFormat } from "../output.ts";
import { watchLoop } from "../watch-loop.ts";
import { commandName } from "../invocation.ts";
import { clusterOptions, outputOption, type CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "get [what...]",
  summary: "sets and machines: node, address, state, age, memory, snapshot",
  description:
    "Shows sets and machines. WHAT is sets, vms or nothing for both, and a name for one of them. Below the tables stands why something is not at rest.",
  options: {
    "-A, --all-namespaces": "in all namespaces",
    "-w, --watch": "show it again as it changes, until Ctrl-C",
    ...outputOption(),
    ...clusterOptions,
  },
  examples: [
    "cocoonctl get",
    "cocoonctl get demo",
    "cocoonctl get vms -A -o wide",
    "cocoonctl get vms -o json | jq -r '.[] | select(.state == \"asleep\") | .name'",
  ],
  run: get,
};

export interface GetOptions extends ClusterOptions {
  readonly output: string;
  readonly watch?: boolean;
}

const setWords: ReadonlySet<string> = new Set(["set", "sets", "cset", "csets", "cocoonset", "cocoonsets"]);
const machineWords: ReadonlySet<string> = new Set(["vm", "vms", "machine", "machines", "pod", "pods"]);

export interface GetRequest {
  readonly sets: boolean;
  readonly machines: boolean;
  readonly name?: string;
}

/** `get`, `get sets`, `get vms NAME`, `get NAME`. */
export function readGetRequest(words: readonly string[]): GetRequest {
  const [first, second, ...more] = words;
  if (more.length > 0)
    throw new Fault("badRequest", `get takes a kind and a name; "${more.join(" ")}" is too much`);
  if (first === undefined || first === "all")
    return { sets: true, machines: true, ...(second === undefined ? {} : { name: second }) };
  const sets = setWords.has(first);
  if (sets || machineWords.has(first))
    return { sets, machines: !sets, ...(second === undefined ? {} : { name: second }) };
  if (second !== undefined)
    throw new Fault("badRequest", `"${first}" is not a kind that get knows; use sets, vms, or only a name`);
  return { sets: true, machines: true, name: first };
}

interface Found {
  readonly sets: readonly SetObject[];
  readonly machines: readonly MachineRow[];
}

export async function get(words: readonly string[], options: GetOptions): Promise<void> {
  const format = readFormat(options.output);
  const request = readGetRequest(words);
  await using session = await openSession(options);
  const everywhere = options.allNamespaces ?? false;
  await watchLoop({ watch: options.watch ?? false, signal: session.signal }, async () =>
    formatFound(await find(session, request, everywhere), { format, request, session, everywhere }),
  );
}

async function find(session: Session, request: GetRequest, everywhere: boolean): Promise<Found> {
  if (request.name !== undefined) return findNamed(session, request.name, request);
  const scope = everywhere ? {} : { namespace: session.namespace };
  const sets = await listAll(session, cocoonSets, scope);
  const machines = request.machines ? machineRows(sets, await listAll(session, pods, scope)) : [];
  return { sets: request.sets ? sets : [], machines };
}

/** A set with its machines, or one machine. */
async function findNamed(session: Session, name: string, request: GetRequest): Promise<Found> {
  const { namespace } = session;
  const sets = await listAll(session, cocoonSets, { namespace });
  const set = sets.find((each) => getName(each) === name);
  if (!set && !request.machines) await findSet(session, name); // says what may have been meant
  if (!set) return { sets: [], machines: await findRows(session, name, sets) };
  const own = await listAll(session, pods, { namespace, labelSelector: `${label.set}=${name}` });
  return {
    sets: request.sets ? [set] : [],
    machines: request.machines ? machineRows([set], own) : [],
  };
}

/** A machine by its pod; where it sleeps without one, from its set. */
async function findRows(session: Session, name: string, sets: readonly SetObject[]): Promise<MachineRow[]> {
  const pod = await tryGet(session, pods, { namespace: session.namespace, name });
  const unseated = pod ? [] : machineRows(sets, []).filter((row) => row.name === name);
  if (unseated.length > 0) return unseated;
  const machine = pod && isMachinePod(pod) ? pod : await findMachine(session, name, { mainOfSet: false });
  return machineRows(sets, [machine]).filter((row) => row.name === getName(machine));
}

interface TextOptions {
  readonly format: OutputFormat;
  readonly request: GetRequest;
  readonly session: Session;
  readonly everywhere: boolean;
}

async function formatFound(found: Found, options: TextOptions): Promise<string> {
  const { format, request } = options;
  if (format === "json" || format === "yaml") return serialize(format, selectValue(found, request));
  if (format === "name")
    return [
      ...found.sets.map((set) => `cocoonset/${getName(set)}\n`),
      ...found.machines.map(({ name }) => `pod/${name}\n`),
    ].join("");
  if (found.sets.length + found.machines.length === 0) return emptyText(options);
  const look = { wide: format === "wide", namespaces: options.everywhere, now: Date.now() };
  const tables = [
    ...(found.sets.length > 0 ? [setTable(found.sets, look)] : []),
    ...(found.machines.length > 0 ? [machineTable(found.machines, look)] : []),
  ];
  return `${tables.join("\n\n")}\n${problemsText(found)}`;
}

/** One kind is a list of it; both are an object with both. */
function selectValue({ sets, machines }: Found, request: GetRequest): unknown {
  const objects = sets.map(withoutManagedFields);
  if (!request.machines) return request.name === undefined ? objects : objects[0];
  if (!request.sets) return request.name === undefined ? machines : (machines[0] ?? null);
  return { sets: objects, machines };
}

function emptyText({ session, everywhere }: TextOptions): string {
  const where = everywhere ? "in any namespace" : `in namespace ${session.namespace} (-A looks everywhere)`;
  return `There are no sets and no machines ${where}.\nMake one: ${commandName()} create NAME --image IMAGE --memory 1Gi\n`;
}
