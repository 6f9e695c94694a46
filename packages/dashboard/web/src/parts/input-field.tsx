/** One thing to be entered before an action runs: a number, a text, or one of several choices. */
import { useEffect, useState, type ReactNode } from "react";
import type { ActionInput } from "../actions/action.ts";

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
      {choices && choices.length > 0 ? (
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

function useChoices(
  { choices, loadChoices }: ActionInput,
  onChange: (value: string) => void,
): readonly string[] | undefined {
  const [loaded, setLoaded] = useState<readonly string[]>();
  useEffect(() => {
    let isCurrent = true;
    loadChoices?.().then(
      (found) => {
        if (!isCurrent || found.length === 0) return;
        setLoaded(found);
        onChange(found[0] ?? "");
      },
      () => undefined, // a text is entered instead
    );
    return () => {
      isCurrent = false;
    };
    // oxlint-disable-next-line react-hooks/exhaustive-deps -- once, when the dialog opens
  }, []);
  return loaded ?? choices;
}
