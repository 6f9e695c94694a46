/** Something that a user can do: what it changes, the right that it needs, and the command that does the same. */
import type { Right } from "../api/rights.ts";

export interface Action {
  readonly title: string;
  readonly explain: readonly string[];
  readonly right: Right;
  /** With what was entered, in the order of `inputs`. */
  readonly command: (values: readonly string[]) => string;
  readonly run: (values: readonly string[]) => Promise<unknown>;
  readonly inputs?: readonly ActionInput[];
  /** To be typed before it runs. */
  readonly confirm?: string;
  readonly danger?: boolean;
}

export interface ActionInput {
  readonly label: string;
  readonly initial: string;
  readonly kind: "number" | "text" | "choice";
  readonly choices?: readonly string[];
  /** Choices that have to be looked up first; a text is entered where they cannot be, or there are none. */
  readonly loadChoices?: () => Promise<readonly string[]>;
  readonly max?: number;
  /** Of a text. */
  readonly pattern?: string;
}

/** What a name of a set may be. */
export const namePattern = "[a-z0-9]([\\-a-z0-9]{0,61}[a-z0-9])?";

/** One word of a shell, quoted where it must be. */
function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

export function commandLine(...words: readonly string[]): string {
  return words.map(shellWord).join(" ");
}
