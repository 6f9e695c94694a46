/** JSON pointers (RFC 6901): `/metadata/annotations/example.com~1key`. A pointer is handled as its list of tokens. */
import { Fault } from "./fault.ts";

export type PointerTokens = readonly string[];

export function escapePointerToken(token: string): string {
  return token.replaceAll("~", "~0").replaceAll("/", "~1");
}

/** The tokens as a pointer; no tokens are the whole document. */
export function formatPointer(tokens: PointerTokens): string {
  return tokens.map((token) => `/${escapePointerToken(token)}`).join("");
}

export function parsePointer(pointer: string): string[] {
  if (pointer === "") return [];
  if (!pointer.startsWith("/"))
    throw new Fault("invalid", `JSON pointer "${pointer}" must be empty or begin with "/"`);
  return pointer.slice(1).split("/").map(unescapeToken);
}

function unescapeToken(token: string): string {
  if (/~(?![01])/.test(token))
    throw new Fault("invalid", `JSON pointer token "${token}": "~" must be followed by 0 or 1`);
  // "~01" is the text "~1": the slashes come first, the tildes last.
  return token.replaceAll("~1", "/").replaceAll("~0", "~");
}

/** The array index a token names, `-` being the one after the last; undefined when it names none. */
export function tryArrayIndex(token: string, length: number): number | undefined {
  if (token === "-") return length;
  if (!/^(?:0|[1-9][0-9]{0,14})$/.test(token)) return undefined;
  return Number(token);
}
