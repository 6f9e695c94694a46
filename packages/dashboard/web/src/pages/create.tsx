/** A new set, from a form or from YAML. The API server checks it without creating it, and problems stand at their fields. */
import { useState, type FormEvent, type ReactNode } from "react";
import { commandLine } from "../actions/action.ts";
import { ApiError, kube, type FieldProblem } from "../api/client.ts";
import { setPath } from "../api/paths.ts";
import { cocoonGroup } from "../api/rights.ts";
import { usePage } from "../parts/context.ts";
import { useLock } from "../parts/lock.tsx";
import { CommandText } from "../parts/small.tsx";
import { buildPath, navigate } from "../route.ts";
import { texts } from "../texts.ts";
import { buildSet, emptyForm, formFields, toYaml, type SetForm } from "./set-form.ts";

interface Outcome {
  readonly message: string;
  readonly problems: readonly FieldProblem[];
  readonly valid: boolean;
}

type Mode = "form" | "yaml";

interface Made {
  readonly metadata: { readonly name: string };
}

const nothing: Outcome = { message: "", problems: [], valid: false };

export function CreatePage(): ReactNode {
  const page = usePage();
  const [mode, setMode] = useState<Mode>("form");
  const [form, setForm] = useState<SetForm>({
    ...emptyForm,
    namespace: page.namespace || emptyForm.namespace,
  });
  const [yaml, setYaml] = useState("");
  const [outcome, setOutcome] = useState<Outcome>(nothing);
  const { namespace } = form;
  const switchMode = (next: Mode) => {
    if (next === "yaml") setYaml(toYaml(buildSet(form)));
    setMode(next);
    setOutcome(nothing);
  };
  const send = (dryRun: boolean) => {
    const body = mode === "yaml" ? yaml : buildSet(form);
    void createSet({ namespace, body, dryRun }).then(setOutcome);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    send(false);
  };
  const change = (value: string) => setForm({ ...form, namespace: value });
  return (
    <section className="create">
      <h1>{texts.create.title}</h1>
      <ModeSwitch mode={mode} onChange={switchMode} />
      <form onSubmit={submit}>
        {mode === "form" ? (
          <FormFields form={form} onChange={setForm} problems={outcome.problems} />
        ) : (
          <>
            <TextField label={texts.create.namespace} value={namespace} problem="" onChange={change} />
            <label>
              {texts.create.yaml}
              <textarea
                rows={22}
                spellCheck={false}
                value={yaml}
                onChange={(event) => setYaml(event.target.value)}
              />
            </label>
          </>
        )}
        <OutcomeView outcome={outcome} />
        <CommandText command={commandLine("kubectl", "-n", namespace, "create", "-f", "set.yaml")} />
        <Buttons namespace={namespace} onCheck={() => send(true)} />
      </form>
    </section>
  );
}

interface Creation {
  readonly namespace: string;
  readonly body: unknown;
  readonly dryRun: boolean;
}

/** Opens the page of the set when it was created. */
async function createSet({ namespace, body, dryRun }: Creation): Promise<Outcome> {
  const query = `?fieldValidation=Strict${dryRun ? "&dryRun=All" : ""}`;
  const contentType = typeof body === "string" ? "application/yaml" : "application/json";
  try {
    const path = setPath(namespace) + query;
    const made = await kube<Made>(path, { method: "POST", body, contentType });
    if (!dryRun) navigate(buildPath("sets", namespace, made.metadata.name));
    return { ...nothing, valid: true };
  } catch (error) {
    const problems = error instanceof ApiError ? error.problems : [];
    return { message: error instanceof Error ? error.message : String(error), problems, valid: false };
  }
}

function ModeSwitch({
  mode,
  onChange,
}: {
  readonly mode: Mode;
  readonly onChange: (mode: Mode) => void;
}): ReactNode {
  return (
    <div className="row tabs" role="group" aria-label={texts.create.mode}>
      {(["form", "yaml"] as const).map((each) => (
        <button
          key={each}
          type="button"
          aria-pressed={mode === each}
          onClick={() => mode !== each && onChange(each)}
        >
          {texts.create[each]}
        </button>
      ))}
    </div>
  );
}

function Buttons({
  namespace,
  onCheck,
}: {
  readonly namespace: string;
  readonly onCheck: () => void;
}): ReactNode {
  const right = { verb: "create", group: cocoonGroup, resource: "cocoonsets", namespace };
  const { isLocked, isFinal, reason } = useLock(namespace === "" ? [] : [right]);
  return (
    <>
      {isFinal ? <p className="reason">{reason}</p> : null}
      <div className="row end">
        <button type="button" disabled={isFinal} onClick={onCheck}>
          {texts.create.check}
        </button>
        <button type="submit" className="main" disabled={isLocked}>
          {texts.create.submit}
        </button>
      </div>
    </>
  );
}

function OutcomeView({ outcome }: { readonly outcome: Outcome }): ReactNode {
  if (outcome.valid) return <p role="status">{texts.create.valid}</p>;
  if (outcome.message === "") return null;
  return (
    <div className="error" role="alert">
      <strong>{texts.create.problems}</strong> {outcome.message}
    </div>
  );
}

interface FormProps {
  readonly form: SetForm;
  readonly onChange: (form: SetForm) => void;
  readonly problems: readonly FieldProblem[];
}

function FormFields({ form, onChange, problems }: FormProps): ReactNode {
  const fields = formFields.map(({ key, label, field, choices, names }) => {
    const problem = problems
      .filter((each) => each.field === field)
      .map((each) => each.message)
      .join("; ");
    const change = (value: string) => onChange({ ...form, [key]: value });
    return (
      <TextField
        key={key}
        {...{
          label,
          problem,
          value: form[key],
          onChange: change,
          ...(choices ? { choices } : {}),
          ...(names ? { names } : {}),
        }}
      />
    );
  });
  return <div className="fields">{fields}</div>;
}

interface FieldProps {
  readonly label: string;
  readonly value: string;
  readonly problem: string;
  readonly choices?: readonly string[];
  readonly names?: Readonly<Record<string, string>>;
  readonly onChange: (value: string) => void;
}

function TextField({ label, value, problem, choices, names, onChange }: FieldProps): ReactNode {
  return (
    <label>
      {label}
      {choices ? (
        <select value={value} onChange={(event) => onChange(event.target.value)}>
          {choices.map((choice) => (
            <option key={choice} value={choice}>
              {names?.[choice] ?? choice}
            </option>
          ))}
        </select>
      ) : (
        <input
          value={value}
          onChange={(event) => onChange(event.target.value)}
          aria-invalid={problem !== ""}
          autoComplete="off"
        />
      )}
      {problem === "" ? null : (
        <span className="field-problem" role="alert">
          {problem}
        </span>
      )}
    </label>
  );
}
