/** A button for an action: it says why it cannot be pressed, and what it will do before it does it. */
import { useEffect, useId, useRef, useState, type FormEvent, type ReactNode } from "react";
import type { Action } from "../actions/action.ts";
import { describeRight, useRight, type Verdict } from "../api/rights.ts";
import { texts } from "../texts.ts";
import { usePage } from "./context.ts";
import { InputField } from "./input-field.tsx";
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
  const [values, setValues] = useState<readonly string[]>(() =>
    (action.inputs ?? []).map(({ initial }) => initial),
  );
  const [typed, setTyped] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  useEffect(() => dialog.current?.showModal(), []);
  const confirmed = action.confirm === undefined || typed === action.confirm;
  const change = (at: number, value: string) => setValues((before) => before.with(at, value));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!confirmed || busy) return;
    setBusy(true);
    setError("");
    action.run(values).then(onClose, (failure: unknown) => {
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
        <ActionFields action={action} values={values} onChange={change} typed={typed} onType={setTyped} />
        <CommandText command={action.command(values)} />
        <ErrorBox message={error} />
        <div className="row end">
          <button type="button" onClick={onClose}>
            {texts.action.cancel}
          </button>
          <button type="submit" className={action.danger ? "danger" : "main"} disabled={!confirmed || busy}>
            {busy ? texts.action.busy : action.title}
          </button>
        </div>
      </form>
    </dialog>
  );
}

interface FieldsProps {
  readonly action: Action;
  readonly values: readonly string[];
  readonly onChange: (at: number, value: string) => void;
  readonly typed: string;
  readonly onType: (text: string) => void;
}

function ActionFields({ action, values, onChange, typed, onType }: FieldsProps): ReactNode {
  return (
    <>
      {(action.inputs ?? []).map((input, at) => (
        <InputField
          key={input.label}
          input={input}
          value={values[at] ?? ""}
          onChange={(value) => onChange(at, value)}
        />
      ))}
      {action.confirm === undefined ? null : (
        <label>
          {texts.action.typeName(action.confirm)}
          <input value={typed} onChange={(event) => onType(event.target.value)} autoComplete="off" />
        </label>
      )}
    </>
  );
}
