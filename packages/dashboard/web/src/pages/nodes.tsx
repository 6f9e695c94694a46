/** Nodes: what runs where, how much they have, whether they take machines. */
import { useMemo, type ReactNode } from "react";
import type { MachineRow, NodeRow } from "../../../src/shared/rows.ts";
import { cordonAction } from "../actions/node-actions.ts";
import { DrainButton } from "../drain/drain-button.tsx";
import { formatAge, formatBytes, formatQuantity, readQuantity } from "../format.ts";
import { buildKey, useKind } from "../live/store.ts";
import { ActionButton } from "../parts/action-button.tsx";
import { usePage } from "../parts/context.ts";
import { ListState } from "../parts/list-state.tsx";
import { Badge, Facts, Link } from "../parts/small.tsx";
import { buildPath } from "../route.ts";
import { texts } from "../texts.ts";

const shownMachines = 100;

export function NodesPage(): ReactNode {
  const { store } = usePage();
  const state = useKind(store, "node");
  const machines = useKind(store, "machine");
  const nodes = useMemo(
    () =>
      [...state.rows.values()]
        .filter((node) => node.pool !== "")
        .sort((left, right) => (left.name < right.name ? -1 : 1)),
    [state.rows],
  );
  const byNode = useMemo(
    () => Map.groupBy(machines.rows.values(), (machine) => machine.node),
    [machines.rows],
  );
  return (
    <section>
      <h1>{texts.nav.nodes}</h1>
      <ListState state={state} empty={nodes.length === 0} none={texts.list.none}>
        {nodes.map((node) => (
          <NodeCard key={node.name} node={node} machines={byNode.get(node.name) ?? []} />
        ))}
      </ListState>
    </section>
  );
}

function NodeCard({
  node,
  machines,
}: {
  readonly node: NodeRow;
  readonly machines: readonly MachineRow[];
}): ReactNode {
  const { store } = usePage();
  const usage = useKind(store, "usage").rows;
  const promised = machines.reduce((sum, { memory }) => sum + readQuantity(memory), 0);
  const used = machines.flatMap(({ namespace, name }) => usage.get(buildKey(namespace, name)) ?? []);
  const resident = used.reduce((sum, { memoryBytes }) => sum + memoryBytes, 0);
  const shared = used.reduce((sum, { memoryBytes, privateBytes }) => sum + memoryBytes - privateBytes, 0);
  return (
    <article className="node">
      <div className="row">
        <h2>
          {node.name} <Badge text={node.ready ? texts.nodes.ready : texts.nodes.notReady} />
          {node.unschedulable ? <Badge text={texts.nodes.cordoned} /> : null}
        </h2>
        <div className="row actions">
          <ActionButton action={cordonAction(node)} />
          <DrainButton node={node} />
        </div>
      </div>
      <Facts
        facts={[
          [texts.column.pool, node.pool],
          [texts.column.cpu, node.cpu],
          [texts.column.memory, formatQuantity(node.memory)],
          [texts.column.machines, String(machines.length)],
          [texts.nodes.promised, formatBytes(promised)],
          [texts.nodes.resident, resident === 0 ? "" : formatBytes(resident)],
          [texts.nodes.shared, shared <= 0 ? "" : formatBytes(shared)],
          [texts.column.version, node.version],
          [texts.column.age, formatAge(node.createdAt)],
          [texts.column.state, node.ready ? "" : node.message],
        ]}
      />
      <ul className="inline">
        {machines.slice(0, shownMachines).map((machine) => (
          <li key={`${machine.namespace}/${machine.name}`}>
            <Link to={buildPath("machines", machine.namespace, machine.name)}>{machine.name}</Link>{" "}
            <Badge text={machine.state} />
          </li>
        ))}
      </ul>
    </article>
  );
}
