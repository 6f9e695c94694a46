/** All machines. */
import { useMemo, useState, type ReactNode } from "react";
import type { MachineRow } from "../../../src/shared/rows.ts";
import { formatAge } from "../format.ts";
import { filterRows, listMachines } from "../live/machines.ts";
import { buildKey, useKind } from "../live/store.ts";
import { usePage } from "../parts/context.ts";
import { Filter } from "../parts/filter.tsx";
import { ListState } from "../parts/list-state.tsx";
import { Badge } from "../parts/small.tsx";
import { VirtualTable, type TableColumn } from "../parts/virtual-table.tsx";
import { buildPath } from "../route.ts";
import { texts } from "../texts.ts";

const columns: readonly TableColumn<MachineRow>[] = [
  { title: texts.column.name, width: "minmax(8rem, 2fr)", cell: (machine) => machine.name },
  { title: texts.column.namespace, width: "minmax(6rem, 1fr)", cell: (machine) => machine.namespace },
  { title: texts.column.state, width: "8rem", cell: (machine) => <Badge text={machine.state} /> },
  { title: texts.column.set, width: "minmax(6rem, 1fr)", cell: (machine) => machine.set },
  { title: texts.column.role, width: "6rem", cell: (machine) => machine.role },
  { title: texts.column.node, width: "minmax(6rem, 1fr)", cell: (machine) => machine.node },
  { title: texts.column.address, width: "8rem", cell: (machine) => machine.ip },
  { title: texts.column.memory, width: "5rem", cell: (machine) => machine.memory },
  { title: texts.column.age, width: "5rem", cell: (machine) => formatAge(machine.createdAt) },
];

export function MachinesPage(): ReactNode {
  const { store } = usePage();
  const pods = useKind(store, "machine");
  const sets = useKind(store, "set");
  const [filter, setFilter] = useState("");
  const rows = useMemo(() => listMachines(pods.rows, sets.rows), [pods.rows, sets.rows]);
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
