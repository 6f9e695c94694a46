/** `WWW-Authenticate`: which way of proving oneself a server wants (RFC 9110 section 11.6.1). */

export interface Challenge {
  /** Lower case: `bearer`, `basic`. */
  readonly scheme: string;
  readonly parameters: Readonly<Record<string, string>>;
}

const limitBytes = 8 * 1024;
const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
const parameter = new RegExp(String.raw`(${token})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))`, "y");
const scheme = new RegExp(String.raw`(${token})(?=\s|,|$)`, "y");

/** All challenges of the header, in its order. What cannot be read ends the list. */
export function readChallenges(header: string): Challenge[] {
  const text = header.slice(0, limitBytes);
  const found: { scheme: string; parameters: Record<string, string> }[] = [];
  let at = skipSeparators(text, 0);
  while (at < text.length) {
    const pair = matchAt(parameter, text, at);
    const word = pair ?? matchAt(scheme, text, at);
    if (!word) break;
    if (!pair) found.push({ scheme: (word[1] ?? "").toLowerCase(), parameters: {} });
    else addParameter(found.at(-1), pair);
    at = skipSeparators(text, at + word[0].length);
  }
  return found;
}

function addParameter(
  challenge: { parameters: Record<string, string> } | undefined,
  match: RegExpExecArray,
): void {
  if (!challenge) return;
  const value = match[2] === undefined ? (match[3] ?? "") : match[2].replaceAll(/\\(.)/g, "$1");
  challenge.parameters[(match[1] ?? "").toLowerCase()] = value;
}

function matchAt(expression: RegExp, text: string, at: number): RegExpExecArray | undefined {
  expression.lastIndex = at;
  return expression.exec(text) ?? undefined;
}

function skipSeparators(text: string, from: number): number {
  let at = from;
  while (at < text.length && /[\s,]/.test(text.charAt(at))) at += 1;
  return at;
}
