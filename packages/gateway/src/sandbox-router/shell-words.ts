/** A command line as words, quoted as in a POSIX shell; nothing else of a shell. */
import { RouterError } from "./router-error.ts";

export function splitWords(line: string): string[] {
  const words: string[] = [];
  let word: string | undefined;
  for (let at = 0; at < line.length; at += 1) {
    const sign = line[at] ?? "";
    if (/\s/.test(sign)) {
      if (word !== undefined) words.push(word);
      word = undefined;
    } else if (sign === "'" || sign === '"') {
      const quoted = readQuoted(line, at);
      word = `${word ?? ""}${quoted.text}`;
      at = quoted.end;
    } else if (sign === "\\") {
      at += 1;
      if (at >= line.length) throw unfinished();
      word = `${word ?? ""}${line[at] ?? ""}`;
    } else word = `${word ?? ""}${sign}`;
  }
  return word === undefined ? words : [...words, word];
}

function readQuoted(line: string, start: number): { readonly text: string; readonly end: number } {
  const quote = line[start];
  let text = "";
  for (let at = start + 1; at < line.length; at += 1) {
    const sign = line[at] ?? "";
    if (sign === quote) return { text, end: at };
    const next = line[at + 1];
    const isEscape = quote === '"' && sign === "\\" && (next === '"' || next === "\\");
    text += isEscape ? next : sign;
    if (isEscape) at += 1;
  }
  throw unfinished();
}

function unfinished(): RouterError {
  return new RouterError(400, "command: a quotation is not closed", "message");
}
