/** All machines. */
import { useMemo, useState, type ReactNode } from "react";
import type { MachineRow, UsageRow } from "../../../src/shared/rows.ts";
import { formatAge, formatBytes } from "../format.ts";
import { filterRows, listMachines } from "../live/machines.ts";
import { useSnapshotSizes } from "../live/snapshot-sizes.ts";
import { buildKey, useKind } from "../live/store.ts";
import { usePage } from "../parts/context.ts";
import { Filter } from "../parts/filter.tsx";
import { ListState } from "../parts/list-state.tsx";
import { Badge } from "../parts/small.tsx";
import { VirtualTable, type TableColumn } from "../parts/virtual-table.tsx";
import { buildPath } from "../route.ts";
import { texts } from "../texts.ts";

interface Listed extends MachineRow {
  readonly usage: UsageRow | undefined;
  readonly snapshotBytes: number;
}

const columns: readonly TableColumn<Listed>[] = [
  { title: texts.column.name, width: "minmax(7rem, 2fr)", cell: (machine) => machine.name },
  { title: texts.column.namespace, width: "minmax(5rem, 1fr)", cell: (machine) => machine.namespace },
  { title: texts.column.state, width: "7rem", cell: (machine) => <Badge text={machine.state} /> },
  { title: texts.column.set, width: "minmax(5rem, 1fr)", cell: (machine) => machine.set },
  { title: texts.column.node, width: "minmax(5rem, 1fr)", cell: (machine) => machine.node },
  { title: texts.column.address, width: "8rem", cell: (machine) => machine.ip },
  { title: texts.column.memory, width: "8.5rem", cell: formatMemory },
  {
    title: texts.column.disk,
    width: "5rem",
    cell: ({ usage }) => (usage && usage.diskBytes > 0 ? formatBytes(usage.diskBytes) : ""),
  },
  {
    title: texts.column.snapshot,
    width: "5rem",
    cell: ({ snapshotBytes }) => (snapshotBytes > 0 ? formatBytes(snapshotBytes) : ""),
  },
  {
    title: texts.column.traffic,
    width: "5rem",
    cell: ({ usage, idleSince }) => formatAge(usage?.trafficAt || idleSince),
  },
  { title: texts.column.age, width: "4.5rem", cell: (machine) => formatAge(machine.createdAt) },
];

function formatMemory({ usage, memory }: Listed): string {
  return usage && usage.memoryBytes > 0 ? texts.list.used(formatBytes(usage.memoryBytes), memory) : memory;
}

export function MachinesPage(): ReactNode {
  const { store } = usePage();
  const pods = useKind(store, "machine");
  const sets = useKind(store, "set");
  const [filter, setFilter] = useState("");
  const usage = useKind(store, "usage").rows;
  const machines = useMemo(() => listMachines(pods.rows, sets.rows), [pods.rows, sets.rows]);
  const sizes = useSnapshotSizes(machines.filter(({ state }) => state === "asleep").length);
  const rows = useMemo(
    () =>
      machines.map((machine) => ({
        ...machine,
        usage: usage.get(buildKey(machine.namespace, machine.name)),
        snapshotBytes: sizes.get(machine.vmName) ?? 0,
      })),
    [machines, usage, sizes],
  );
  const shown = useMemo(() => filterRows(rows, filter, readText), [rows, filter]);
  return (
    <section className="list">
      <div className="row">
        <h1>
          {texts.nav.machines} <small>{texts.list.count(shown.length, rows.length)}</small>
        </h1>
        <Filter value={filter} onChange={setFilter} />
      </div>
      <ListState
        state={pods}
        empty={shown.length === 0}
        none={rows.length === 0 ? texts.list.noneMachines : texts.list.none}
      >
        <VirtualTable
          label={texts.nav.machines}
          rows={shown}
          columns={columns}
          getKey={(machine) => buildKey(machine.namespace, machine.name)}
          getPath={(machine) => buildPath("machines", machine.namespace, machine.name)}
        />
      </ListState>
    </section>
  );
}

function readText({ name, namespace, state, set, node, role, image }: MachineRow): string {
  return `${name} ${namespace} ${state} ${set} ${node} ${role} ${image}`;
}
