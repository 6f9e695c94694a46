/** An argument list as one line for a POSIX shell. */
const bare = /^[A-Za-z0-9_./:=@+,-]+$/;

export function shellWords(words: readonly string[]): string {
  return words.map(quote).join(" ");
}

function quote(word: string): string {
  if (bare.test(word)) return word;
  return `'${word.replaceAll("'", `'\\''`)}'`;
}
