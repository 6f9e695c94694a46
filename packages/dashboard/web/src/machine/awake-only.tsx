/** What needs a running machine. A sleeping one is offered to be woken; when it is ready the view comes back by itself. */
import type { ReactNode } from "react";
import type { MachineRow } from "../../../src/shared/rows.ts";
import { wakeAction } from "../actions/machine-actions.ts";
import { buildKey, useKind } from "../live/store.ts";
import { ActionButton } from "../parts/action-button.tsx";
import { usePage } from "../parts/context.ts";
import { texts } from "../texts.ts";

const running: ReadonlySet<string> = new Set(["ready", "not ready"]);

export function AwakeOnly({
  machine,
  children,
}: {
  readonly machine: MachineRow;
  readonly children: ReactNode;
}): ReactNode {
  const { store } = usePage();
  const hibernations = useKind(store, "hibernation");
  if (running.has(machine.state)) return children;
  if (machine.state !== "asleep") return <p role="status">{texts.machine.notReady(machine.state)}</p>;
  const before = hibernations.rows.get(buildKey(machine.namespace, machine.name));
  const action = { ...wakeAction(machine, before), title: texts.machine.wakeIt };
  return (
    <div className="asleep" role="status">
      <p>{texts.machine.asleep}</p>
      <ActionButton action={action} />
    </div>
  );
}
