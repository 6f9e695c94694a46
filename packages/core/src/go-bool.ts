/** Booleans as Go's strconv.ParseBool reads them; environment variables of the Go systems rely on it. */
const trueWords = ["1", "t", "T", "TRUE", "true", "True"];
const falseWords = ["0", "f", "F", "FALSE", "false", "False"];

export function tryParseBool(text: string): boolean | undefined {
  return trueWords.includes(text) ? true : falseWords.includes(text) ? false : undefined;
}
