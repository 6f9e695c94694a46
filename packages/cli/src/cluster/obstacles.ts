/** Why something that a command waits for takes long: parts that are down, and what machines report. */
import { label, readMachineState, systemNamespace } from "@cocoon/contract";
import { isFault } from "@cocoon/core";
import { events, leases, pods, type KubeEvent, type Lease, type Pod } from "@cocoon/kube";
import { listAll, getName, tryGet, tryList } from "./find.ts";
import type { Session } from "./session.ts";

/** A lease that is this many durations old is not held by a running process. */
const staleDurations = 2;
const mostMessages = 2;
const longestMessage = 300;

/** Parts that must act and do not run; "" when all do, or when this user may not see it. */
export function findDownParts(session: Session): Promise<string> {
  return session.target.home === undefined
    ? describeOperatorLease(session)
    : describeLocalParts(session, session.target.home);
}

async function describeLocalParts({ signal }: Session, home: string): Promise<string> {
  const [{ componentStatus }, { knownPlatform }] = await Promise.all([
    import("@cocoon/controlplane"),
    import("../platform.ts"),
  ]);
  const platform = await knownPlatform(home, process.env);
  const statuses = await Promise.all(
    (platform?.components ?? []).map((component) => componentStatus(component, { directory: home, signal })),
  );
  const down = statuses.filter(({ state }) => state !== "ready" && state !== "stopped");
  return down
    .map(({ name, state, detail }) =>
      state === "restarting"
        ? (detail.split("\n")[0] ?? "")
        : `${name} ${state === "crashed" ? "is down" : "does not answer"}: npm run status`,
    )
    .join("; ");
}

const operatorLease = { namespace: systemNamespace, name: "cocoon-operator.cocoonset.cocoonstack.io" };

async function describeOperatorLease(session: Session): Promise<string> {
  try {
    const lease = await tryGet(session, leases, operatorLease);
    return lease && isStale(lease, Date.now())
      ? `the operator does not run: its lease was last renewed at ${lease.spec?.renewTime}`
      : "";
  } catch (error) {
    if (isFault(error, "forbidden")) return ""; // users of one namespace need not see the operator's
    throw error;
  }
}

export function isStale({ spec }: Lease, now: number): boolean {
  const { renewTime, leaseDurationSeconds = 15, holderIdentity } = spec ?? {};
  if (renewTime === undefined) return false;
  return !holderIdentity || now - Date.parse(renewTime) > staleDurations * leaseDurationSeconds * 1000;
}

/** What the machines report, else their latest warnings since the wait began. */
export async function findMachineObstacles(
  session: Session,
  wanted: { readonly set?: string; readonly machine?: string; readonly since: number },
): Promise<string> {
  const { namespace } = session;
  const found =
    wanted.machine === undefined
      ? await listAll(session, pods, { namespace, labelSelector: `${label.set}=${wanted.set}` })
      : [await tryGet(session, pods, { namespace, name: wanted.machine })].filter((pod) => pod !== undefined);
  const reported = found.flatMap(describeReport);
  if (reported.length > 0) return shorten(reported);
  const all = await tryList(listAll(session, events, { namespace, fieldSelector: "type=Warning" }));
  return shorten(describeWarnings(found, all, wanted.since));
}

function describeReport(pod: Pod): string[] {
  const { message } = readMachineState(pod);
  return message === "" ? [] : [`${getName(pod)}: ${message}`];
}

function describeWarnings(machines: readonly Pod[], all: readonly KubeEvent[], since: number): string[] {
  const names = new Set(machines.map(getName));
  return all
    .filter(({ regarding }) => regarding?.kind === "Pod" && names.has(regarding.name ?? ""))
    .filter((event) => readEventTime(event) >= since)
    .toSorted((left, right) => readEventTime(right) - readEventTime(left))
    .map(({ regarding, reason, note }) => `${regarding?.name}: ${reason}: ${note ?? ""}`);
}

function shorten(messages: readonly string[]): string {
  const shown = messages.slice(0, mostMessages).map((each) => each.slice(0, longestMessage));
  return shown.join("; ").replaceAll("\n", " ");
}

/** When an event was seen last; 0 when it does not say. */
export function readEventTime({ series, eventTime, metadata, ...rest }: KubeEvent): number {
  const older = (rest as { deprecatedLastTimestamp?: string }).deprecatedLastTimestamp;
  return Date.parse(series?.lastObservedTime ?? eventTime ?? older ?? metadata.creationTimestamp ?? "") || 0;
}
