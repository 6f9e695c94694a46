/** One thing to be entered before an action runs: a number, a text, or one of several choices. */
import { useEffect, useState, type ReactNode } from "react";
import type { ActionInput } from "../actions/action.ts";
import { texts } from "../texts.ts";

interface InputProps {
  readonly input: ActionInput;
  readonly value: string;
  readonly onChange: (value: string) => void;
}

export function InputField({ input, value, onChange }: InputProps): ReactNode {
  const choices = useChoices(input, onChange);
  return (
    <label>
      {input.label}
      {choices === "loading" ? (
        <select disabled aria-busy="true">
          <option>{texts.list.loading}</option>
        </select>
      ) : choices.length > 0 ? (
        <select value={value} onChange={(event) => onChange(event.target.value)}>
          {choices.map((choice) => (
            <option key={choice}>{choice}</option>
          ))}
        </select>
      ) : (
        <input
          required
          autoComplete="off"
          value={value}
          onChange={(event) => onChange(event.target.value)}
          {...(input.kind === "number" ? { type: "number", min: 0, max: input.max } : {})}
          {...(input.pattern === undefined ? {} : { pattern: input.pattern })}
        />
      )}
    </label>
  );
}

/** None where a value is entered instead: there are no choices, or they could not be looked up. */
function useChoices(
  { choices = [], loadChoices }: ActionInput,
  onChange: (value: string) => void,
): readonly string[] | "loading" {
  const [loaded, setLoaded] = useState<readonly string[] | "loading">(loadChoices ? "loading" : choices);
  useEffect(() => {
    let isCurrent = true;
    const show = (found: readonly string[]) => {
      if (!isCurrent) return;
      setLoaded(found);
      if (found[0] !== undefined) onChange(found[0]);
    };
    loadChoices?.().then(show, () => show([]));
    return () => {
      isCurrent = false;
    };
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- once, when the dialog opens
  }, []);
  return loaded;
}
