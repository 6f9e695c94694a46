/** Details of a machine, the progress of a hibernate or wake, and its life so far. */
import type { ReactNode } from "react";
import type { MachineRow } from "../../../src/shared/rows.ts";
import { formatAge, formatBytes, formatTime, shortDigest } from "../format.ts";
import { useSnapshotSizes } from "../live/snapshot-sizes.ts";
import { buildKey, useKind } from "../live/store.ts";
import { usePage } from "../parts/context.ts";
import { Progress } from "../parts/progress.tsx";
import { Facts, Link } from "../parts/small.tsx";
import { Timeline } from "../parts/timeline.tsx";
import { buildPath } from "../route.ts";
import { texts } from "../texts.ts";
import { OpenPort } from "./open-port.tsx";

export function Overview({ machine }: { readonly machine: MachineRow }): ReactNode {
  const { store } = usePage();
  const { namespace, name } = machine;
  const snapshotBytes = useSnapshotSizes(machine.state === "asleep" ? 1 : 0).get(machine.vmName);
  const measured = useKind(store, "usage").rows.get(buildKey(namespace, name));
  const usage = machine.state === "asleep" ? undefined : measured;
  const hibernation = useKind(store, "hibernation").rows.get(buildKey(namespace, name));
  return (
    <>
      <Progress machine={machine} other={hibernation?.message ?? ""} />
      <h2>{texts.machine.details}</h2>
      <Facts
        facts={[
          [texts.column.namespace, namespace],
          [
            texts.column.set,
            machine.set === "" ? (
              ""
            ) : (
              <Link to={buildPath("sets", namespace, machine.set)}>{machine.set}</Link>
            ),
          ],
          [texts.column.role, machine.role],
          [texts.column.node, machine.node],
          [texts.column.address, machine.ip],
          [texts.column.image, machine.image],
          [texts.column.cpu, machine.cpu],
          [texts.column.memory, machine.memory],
          [texts.column.memoryUsed, usage ? formatBytes(usage.memoryBytes) : ""],
          [texts.column.diskUsed, usage ? formatBytes(usage.diskBytes) : ""],
          [texts.column.traffic, usage?.trafficAt ? texts.ago(formatAge(usage.trafficAt)) : ""],
          [texts.machine.vm, machine.vmName],
          [texts.machine.forkedFrom, machine.forkedFrom],
          [texts.column.snapshot, shortDigest(machine.snapshot)],
          [texts.machine.snapshotSize, snapshotBytes === undefined ? "" : formatBytes(snapshotBytes)],
          [texts.machine.idleSince, formatTime(machine.idleSince)],
          [texts.column.age, formatAge(machine.createdAt)],
        ]}
      />
      {machine.state === "ready" ? <OpenPort machine={machine} /> : null}
      <h2>{texts.machine.timeline}</h2>
      <Timeline
        query={`?namespace=${encodeURIComponent(namespace)}&about=${encodeURIComponent(name)}`}
        createdAt={machine.createdAt}
        none={texts.machine.noEvents}
      />
    </>
  );
}
