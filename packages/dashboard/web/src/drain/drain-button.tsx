/** Draining a node: what will happen to each machine, then how far each is, then what came of it. */
import { useEffect, useMemo, useRef, useState, type FormEvent, type ReactNode } from "react";
import type { NodeRow } from "../../../src/shared/rows.ts";
import { commandLine } from "../actions/action.ts";
import { useKind } from "../live/store.ts";
import { usePage } from "../parts/context.ts";
import { Dialog } from "../parts/dialog.tsx";
import { LockedButton } from "../parts/lock.tsx";
import { Badge, CommandText, ErrorBox } from "../parts/small.tsx";
import { texts } from "../texts.ts";
import { observeDrain, planDrain, type DrainProgress, type DrainStep } from "./plan.ts";
import { drainNode } from "./run.ts";

export function DrainButton({ node }: { readonly node: NodeRow }): ReactNode {
  const [isOpen, setIsOpen] = useState(false);
  const rights = [
    { verb: "patch", resource: "nodes", name: node.name },
    { verb: "create", resource: "pods", subresource: "eviction" },
  ];
  return (
    <span className="action">
      <LockedButton rights={rights} danger onPress={() => setIsOpen(true)}>
        {texts.action.drain}
      </LockedButton>
      {isOpen ? <DrainDialog node={node} onClose={() => setIsOpen(false)} /> : null}
    </span>
  );
}

interface DrainDialogProps {
  readonly node: NodeRow;
  readonly onClose: () => void;
}

function DrainDialog({ node, onClose }: DrainDialogProps): ReactNode {
  const plan = useDrainPlan(node);
  const [begun, setBegun] = useState<readonly DrainStep[]>();
  const { progress, isDone, error } = useDrain(node.name, begun);
  return (
    <Dialog title={texts.action.drain} onClose={onClose}>
      <div className="drain">
        <h2>{texts.drain.title(node.name)}</h2>
        {begun === undefined ? (
          <DrainPlan plan={plan} />
        ) : (
          <DrainState progress={progress} isDone={isDone} node={node.name} />
        )}
        <ErrorBox message={error} />
        <CommandText command={commandLine("cocoonctl", "drain", node.name)} />
        {begun === undefined ? (
          <ConfirmForm name={node.name} onConfirm={() => setBegun(plan)} onCancel={onClose} />
        ) : (
          <div className="row end">
            <button type="button" onClick={onClose}>
              {texts.drain.close}
            </button>
          </div>
        )}
      </div>
    </Dialog>
  );
}

function useDrainPlan(node: NodeRow): DrainStep[] {
  const { store } = usePage();
  const machines = useKind(store, "machine").rows;
  const sets = useKind(store, "set").rows;
  const nodes = useKind(store, "node").rows;
  return useMemo(
    () => planDrain(node, { nodes: [...nodes.values()], machines: [...machines.values()], sets }),
    [node, machines, sets, nodes],
  );
}

interface DrainView {
  readonly progress: readonly DrainProgress[];
  readonly isDone: boolean;
  readonly error: string;
}

/** Drains from the moment there is a plan that was agreed to, for as long as the dialog is open. */
function useDrain(node: string, plan: readonly DrainStep[] | undefined): DrainView {
  const { store } = usePage();
  const machines = useKind(store, "machine").rows;
  const latest = useRef(machines);
  const [held, setHeld] = useState<ReadonlyMap<string, string>>(new Map());
  const [isDone, setIsDone] = useState(false);
  const [error, setError] = useState("");
  useEffect(() => {
    latest.current = machines;
  }, [machines]);
  useEffect(() => {
    if (plan === undefined) return undefined;
    const stop = new AbortController();
    const { signal } = stop;
    const list = () => [...latest.current.values()];
    drainNode({ node, listMachines: list, onHeld: setHeld, signal }).then(
      () => !signal.aborted && setIsDone(true),
      (failure: unknown) => setError(failure instanceof Error ? failure.message : String(failure)),
    );
    return () => stop.abort();
  }, [node, plan]);
  const progress = observeDrain(plan ?? [], { node, machines, held });
  return { progress, isDone, error };
}

function DrainPlan({ plan }: { readonly plan: readonly DrainStep[] }): ReactNode {
  return (
    <>
      <p>{texts.explain.drain}</p>
      {plan.length === 0 ? (
        <p>{texts.drain.empty}</p>
      ) : (
        <table aria-label={texts.drain.plan}>
          <tbody>
            {plan.map(({ machine, outcome }) => (
              <tr key={`${machine.namespace}/${machine.name}`}>
                <th scope="row">{machine.name}</th>
                <td>
                  <Badge text={machine.state} />
                </td>
                <td>{texts.drain.outcome[outcome]}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p className="reason">{texts.drain.kept}</p>
    </>
  );
}

interface DrainStateProps {
  readonly progress: readonly DrainProgress[];
  readonly isDone: boolean;
  readonly node: string;
}

function DrainState({ progress, isDone, node }: DrainStateProps): ReactNode {
  const left = progress.filter(({ hasLeft }) => hasLeft).length;
  return (
    <>
      <p role="status">
        {isDone ? null : (
          <progress aria-label={texts.drain.progress} max={Math.max(1, progress.length)} value={left} />
        )}{" "}
        {isDone ? texts.drain.done(node, progress.length) : texts.drain.leaving(left, progress.length)}
      </p>
      <table aria-label={texts.drain.progress}>
        <tbody>
          {progress.map(({ machine, hasLeft, text }) => (
            <tr key={`${machine.namespace}/${machine.name}`}>
              <th scope="row">{machine.name}</th>
              <td className={hasLeft ? "good" : "busy"}>
                {hasLeft ? texts.drain.hasLeft : texts.drain.there}
              </td>
              <td>{text}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className="reason">{isDone ? texts.drain.cordoned : texts.drain.closing}</p>
    </>
  );
}

interface ConfirmProps {
  readonly name: string;
  readonly onConfirm: () => void;
  readonly onCancel: () => void;
}

function ConfirmForm({ name, onConfirm, onCancel }: ConfirmProps): ReactNode {
  const [typed, setTyped] = useState("");
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (typed === name) onConfirm();
  };
  return (
    <form onSubmit={submit}>
      <label>
        {texts.action.typeName(name)}
        <input value={typed} onChange={(event) => setTyped(event.target.value)} autoComplete="off" />
      </label>
      <div className="row end">
        <button type="button" onClick={onCancel}>
          {texts.action.cancel}
        </button>
        <button type="submit" className="danger" disabled={typed !== name}>
          {texts.action.drain}
        </button>
      </div>
    </form>
  );
}
