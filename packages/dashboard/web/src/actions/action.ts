/** Something that a user can do: what it changes, the right that it needs, and the command that does the same. */
import type { Right } from "../api/rights.ts";

export interface Action {
  readonly title: string;
  readonly explain: readonly string[];
  readonly right: Right;
  /** With what was entered, where something is to be entered. */
  readonly command: (input: string) => string;
  readonly run: (input: string) => Promise<unknown>;
  readonly input?: ActionInput;
  /** To be typed before it runs. */
  readonly confirm?: string;
  readonly danger?: boolean;
}

interface ActionInput {
  readonly label: string;
  readonly initial: string;
  /** Choices; without them a whole number is entered. */
  readonly choices?: readonly string[];
  readonly max?: number;
}

/** One word of a shell, quoted where it must be. */
function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

export function commandLine(...words: readonly string[]): string {
  return words.map(shellWord).join(" ");
}
