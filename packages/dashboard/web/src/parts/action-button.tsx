/** A button for an action: it says why it cannot be pressed, and what it will do before it does it. */
import { useEffect, useId, useRef, useState, type FormEvent, type ReactNode } from "react";
import type { Action } from "../actions/action.ts";
import { describeRight, useRight, type Verdict } from "../api/rights.ts";
import { texts } from "../texts.ts";
import { usePage } from "./context.ts";
import { CommandText, ErrorBox } from "./small.tsx";

function explainVerdict(verdict: Verdict, action: Action, readOnly: boolean): string {
  if (readOnly) return texts.action.readOnly;
  if (verdict === "denied") return texts.action.notAllowed(describeRight(action.right));
  if (verdict === "asking") return texts.action.checking;
  return verdict === "unknown" ? texts.action.unknown : "";
}

export function ActionButton({ action }: { readonly action: Action }): ReactNode {
  const { me } = usePage();
  const verdict = useRight(me.readOnly ? undefined : action.right);
  const [open, setOpen] = useState(false);
  const reasonId = useId();
  const reason = explainVerdict(verdict, action, me.readOnly);
  // An unknown answer does not lock the button: the API server decides when it is pressed.
  const isLocked = me.readOnly || verdict === "denied" || verdict === "asking";
  return (
    <span className="action">
      <button
        type="button"
        className={action.danger ? "danger" : undefined}
        aria-disabled={isLocked}
        aria-describedby={reason === "" ? undefined : reasonId}
        title={reason === "" ? undefined : reason}
        onClick={() => !isLocked && setOpen(true)}
      >
        {action.title}
      </button>
      {reason === "" ? null : (
        <span id={reasonId} className={verdict === "denied" || me.readOnly ? "reason" : "hidden"}>
          {reason}
        </span>
      )}
      {open ? <ActionDialog action={action} onClose={() => setOpen(false)} /> : null}
    </span>
  );
}

function ActionDialog({
  action,
  onClose,
}: {
  readonly action: Action;
  readonly onClose: () => void;
}): ReactNode {
  const dialog = useRef<HTMLDialogElement>(null);
  const [input, setInput] = useState(action.input?.initial ?? "");
  const [typed, setTyped] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const confirmed = action.confirm === undefined || typed === action.confirm;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!confirmed || busy) return;
    setBusy(true);
    setError("");
    action.run(input).then(onClose, (failure: unknown) => {
      setBusy(false);
      setError(failure instanceof Error ? failure.message : String(failure));
    });
  };
  return (
    <dialog ref={dialog} onClose={onClose} aria-label={action.title}>
      <form onSubmit={submit}>
        <h2>{action.title}</h2>
        {action.explain.map((text) => (
          <p key={text}>{text}</p>
        ))}
        <InputField action={action} value={input} onChange={setInput} />
        {action.confirm === undefined ? null : (
          <label>
            {texts.action.typeName(action.confirm)}
            <input value={typed} onChange={(event) => setTyped(event.target.value)} autoComplete="off" />
          </label>
        )}
        <CommandText command={action.command(input)} />
        <ErrorBox message={error} />
        <div className="row end">
          <button type="button" onClick={onClose}>
            {texts.action.cancel}
          </button>
          <button type="submit" className={action.danger ? "danger" : "main"} disabled={!confirmed || busy}>
            {action.title}
          </button>
        </div>
      </form>
    </dialog>
  );
}

interface InputProps {
  readonly action: Action;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

function InputField({ action: { input }, value, onChange }: InputProps): ReactNode {
  if (!input) return null;
  if (!input.choices)
    return (
      <label>
        {input.label}
        <input
          type="number"
          min={0}
          max={input.max}
          required
          value={value}
          onChange={(event) => onChange(event.target.value)}
        />
      </label>
    );
  return (
    <label>
      {input.label}
      <select value={value} onChange={(event) => onChange(event.target.value)}>
        {input.choices.map((choice) => (
          <option key={choice}>{choice}</option>
        ))}
      </select>
    </label>
  );
}
