/** The filter of a list; `/` puts the cursor in it. */
import { useEffect, useRef, type ReactNode } from "react";
import { texts } from "../texts.ts";

interface FilterProps {
  readonly value: string;
  readonly onChange: (value: string) => void;
}

export function Filter({ value, onChange }: FilterProps): ReactNode {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping =
        event.target instanceof Element &&
        event.target.closest("input, textarea, select, .terminal") !== null;
      if (event.key !== "/" || isTyping) return;
      event.preventDefault();
      field.current?.focus();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  return (
    <input
      ref={field}
      type="search"
      aria-label={texts.list.filter}
      placeholder={texts.list.filter}
      title={texts.list.filterHelp}
      value={value}
      onChange={(event) => onChange(event.target.value)}
    />
  );
}
