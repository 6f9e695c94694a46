/** Booleans as Go's strconv.ParseBool reads them; environment variables of the Go systems rely on it. */
const words: Readonly<Record<string, boolean>> = {
  "1": true,
  t: true,
  T: true,
  TRUE: true,
  true: true,
  True: true,
  "0": false,
  f: false,
  F: false,
  FALSE: false,
  false: false,
  False: false,
};

export function tryParseBool(text: string): boolean | undefined {
  return Object.hasOwn(words, text) ? words[text] : undefined;
}
