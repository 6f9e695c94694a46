/** All sets. */
import { useMemo, useState, type ReactNode } from "react";
import type { SetRow } from "../../../src/shared/rows.ts";
import { formatAge } from "../format.ts";
import { filterRows } from "../live/machines.ts";
import { buildKey, useKind } from "../live/store.ts";
import { usePage } from "../parts/context.ts";
import { Filter } from "../parts/filter.tsx";
import { ListState } from "../parts/list-state.tsx";
import { Badge } from "../parts/small.tsx";
import { VirtualTable, type TableColumn } from "../parts/virtual-table.tsx";
import { buildPath } from "../route.ts";
import { texts } from "../texts.ts";

const columns: readonly TableColumn<SetRow>[] = [
  { title: texts.column.name, width: "minmax(8rem, 2fr)", cell: (set) => set.name },
  { title: texts.column.namespace, width: "minmax(6rem, 1fr)", cell: (set) => set.namespace },
  { title: texts.column.phase, width: "8rem", cell: (set) => <Badge text={set.phase} /> },
  { title: texts.column.ready, width: "5rem", cell: (set) => `${set.ready}/${set.desired}` },
  { title: texts.column.image, width: "minmax(8rem, 2fr)", cell: (set) => set.image },
  { title: texts.column.age, width: "5rem", cell: (set) => formatAge(set.createdAt) },
];

export function SetsPage(): ReactNode {
  const { store } = usePage();
  const state = useKind(store, "set");
  const [filter, setFilter] = useState("");
  const rows = useMemo(
    () => [...state.rows.values()].sort((left, right) => (getKey(left) < getKey(right) ? -1 : 1)),
    [state.rows],
  );
  const shown = useMemo(
    () => filterRows(rows, filter, (set) => `${set.name} ${set.namespace} ${set.phase} ${set.image}`),
    [rows, filter],
  );
  return (
    <section className="list">
      <div className="row">
        <h1>
          {texts.nav.sets} <small>{texts.list.count(shown.length, rows.length)}</small>
        </h1>
        <Filter value={filter} onChange={setFilter} />
      </div>
      <ListState
        state={state}
        empty={shown.length === 0}
        none={rows.length === 0 ? texts.list.noneSets : texts.list.none}
      >
        <VirtualTable
          label={texts.nav.sets}
          rows={shown}
          columns={columns}
          getKey={getKey}
          getPath={(set) => buildPath("sets", set.namespace, set.name)}
        />
      </ListState>
    </section>
  );
}

function getKey({ namespace, name }: SetRow): string {
  return buildKey(namespace, name);
}
