/** events: what happened to sets and machines, oldest first. */
import { isMachinePod, label } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import { events as eventKind, pods, type KubeEvent } from "@cocoon/kube";
import { readEventTime } from "../cluster/obstacles.ts";
import { listAll, getName, tryGet } from "../cluster/find.ts";
import { cocoonHibernations, cocoonSets } from "../cluster/kinds.ts";
import { openSession, type ClusterOptions, type Session } from "../cluster/session.ts";
import { didYouMean } from "../near-names.ts";
import { readFormat, serialize, withoutManagedFields } from "../output.ts";
import { age, formatTable, type Column } from "../table.ts";
import { watchLoop } from "../watch-loop.ts";
import { clusterOptions, outputOption, type CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "events [name]",
  summary: "what happened to sets and machines",
  description: "Shows the events of a set with its machines, of one machine, or of all, oldest first.",
  options: {
    "-A, --all-namespaces": "in all namespaces",
    "--warnings": "only warnings",
    "-w, --watch": "show it again as it changes, until Ctrl-C",
    ...outputOption("table, wide, json or yaml"),
    ...clusterOptions,
  },
  examples: ["cocoonctl events demo", "cocoonctl events --warnings -A"],
  run: events,
};

export interface EventsOptions extends ClusterOptions {
  readonly output: string;
  readonly watch?: boolean;
  readonly warnings?: boolean;
}

/** The objects whose events are wanted: `Kind/name`. */
type Subjects = ReadonlySet<string>;

export async function events(name: string | undefined, options: EventsOptions): Promise<void> {
  const format = readFormat(options.output);
  if (format === "name")
    throw new Fault("badRequest", "-o name: events have no names of use; use table, wide, json, yaml");
  await using session = await openSession(options);
  const namespace = options.allNamespaces ? undefined : session.namespace;
  if (name !== undefined) await assertKnown(session, name);
  await watchLoop({ watch: options.watch ?? false, signal: session.signal }, async () => {
    const subjects = await findSubjects(session, namespace, name);
    const all = await listAll(session, eventKind, namespace === undefined ? {} : { namespace });
    const found = selectEvents(all, { subjects, name, warnings: options.warnings ?? false });
    if (format === "json" || format === "yaml") return serialize(format, found.map(withoutManagedFields));
    if (found.length === 0)
      return `No events${name === undefined ? "" : ` about ${name}`}. The API server keeps them for an hour.\n`;
    return `${eventTable(found, { wide: format === "wide", namespaces: namespace === undefined, now: Date.now() })}\n`;
  });
}

/** A name that nothing has, and that no event speaks of, is a mistake. */
async function assertKnown(session: Session, name: string): Promise<void> {
  const { namespace } = session;
  const key = { namespace, name };
  const known =
    (await tryGet(session, cocoonSets, key)) ??
    (await tryGet(session, pods, key)) ??
    (await tryGet(session, cocoonHibernations, key));
  if (known) return;
  const spoken = (await listAll(session, eventKind, { namespace })).map(
    ({ regarding }) => regarding?.name ?? "",
  );
  if (spoken.includes(name)) return;
  const sets = (await listAll(session, cocoonSets, { namespace })).map(getName);
  const machines = (await listAll(session, pods, { namespace })).filter(isMachinePod).map(getName);
  throw new Fault(
    "notFound",
    `there is no set or machine "${name}" in namespace ${namespace}${didYouMean(name, [...sets, ...machines])}`,
  );
}

async function findSubjects(
  session: Session,
  namespace: string | undefined,
  name: string | undefined,
): Promise<Subjects> {
  const scope = namespace === undefined ? {} : { namespace };
  const machines = (await listAll(session, pods, scope)).filter(isMachinePod);
  const wanted =
    name === undefined
      ? machines
      : machines.filter(({ metadata }) => metadata.name === name || metadata.labels?.[label.set] === name);
  return new Set(wanted.map((pod) => `Pod/${getName(pod)}`));
}

const ourKinds: ReadonlySet<string> = new Set(["CocoonSet", "CocoonHibernation", "Hibernation"]);

export function selectEvents(
  all: readonly KubeEvent[],
  {
    subjects,
    name,
    warnings,
  }: { readonly subjects: Subjects; readonly name: string | undefined; readonly warnings: boolean },
): KubeEvent[] {
  return all
    .filter(({ regarding, type }) => {
      if (warnings && type !== "Warning") return false;
      const { kind = "", name: about = "" } = regarding ?? {};
      if (subjects.has(`${kind}/${about}`)) return true;
      if (name === undefined) return ourKinds.has(kind);
      // A machine that is gone is still spoken of by its name.
      return (
        about === name ||
        (ourKinds.has(kind) && subjects.has(`Pod/${about}`)) ||
        (kind === "Pod" && isMemberName(about, name))
      );
    })
    .sort((left, right) => readEventTime(left) - readEventTime(right));
}

function isMemberName(pod: string, set: string): boolean {
  return pod.startsWith(`${set}-`) && /^\d+$/.test(pod.slice(set.length + 1));
}

export function eventTable(
  found: readonly KubeEvent[],
  { wide, namespaces, now }: { readonly wide: boolean; readonly namespaces: boolean; readonly now: number },
): string {
  const columns: Column<KubeEvent>[] = [
    { title: "NAMESPACE", only: namespaces, cell: ({ metadata }) => metadata.namespace },
    { title: "LAST SEEN", cell: (event) => age(now - readEventTime(event)) },
    { title: "TYPE", cell: ({ type }) => type },
    { title: "REASON", cell: ({ reason }) => reason },
    { title: "OBJECT", cell: ({ regarding }) => `${regarding?.kind ?? "?"}/${regarding?.name ?? "?"}` },
    { title: "FROM", only: wide, cell: ({ reportingController }) => reportingController },
    { title: "COUNT", only: wide, cell: countText },
    { title: "MESSAGE", cell: ({ note }) => (note ?? "").replaceAll("\n", " ") },
  ];
  return formatTable(columns, found);
}

function countText({ series, deprecatedCount }: KubeEvent): string {
  return String(series?.count ?? deprecatedCount ?? 1);
}
