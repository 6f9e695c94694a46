/** A button for an action: it says why it cannot be pressed, and what it will do before it does it. */
import { useState, type FormEvent, type ReactNode } from "react";
import type { Action } from "../actions/action.ts";
import { texts } from "../texts.ts";
import { Dialog } from "./dialog.tsx";
import { InputField } from "./input-field.tsx";
import { LockedButton } from "./lock.tsx";
import { CommandText, ErrorBox } from "./small.tsx";

export function ActionButton({ action }: { readonly action: Action }): ReactNode {
  const [open, setOpen] = useState(false);
  return (
    <span className="action">
      <LockedButton rights={[action.right]} danger={action.danger ?? false} onPress={() => setOpen(true)}>
        {action.title}
      </LockedButton>
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
  const [values, setValues] = useState<readonly string[]>(() =>
    (action.inputs ?? []).map(({ initial }) => initial),
  );
  const [typed, setTyped] = useState("");
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
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
    <Dialog title={action.title} onClose={onClose}>
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
    </Dialog>
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
