/** Command lines as a person can paste them. */
const plain = /^[\w@%+=:,./-]+$/;

export function shellWord(word: string): string {
  return plain.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** One argument per line, so that it can be read and diffed. */
export function shellCommand(command: string, args: readonly string[]): string {
  return [command, ...args].map(shellWord).join(" \\\n  ");
}
