/** Patterns as people write them for repositories and tags: "*" stands for any text, the empty one included. */
export function matchesPattern(pattern: string, text: string): boolean {
  if (pattern === "*" || pattern === text) return true;
  const parts = pattern.split("*");
  const first = parts[0] ?? "";
  const last = parts.at(-1) ?? "";
  const end = text.length - last.length;
  if (parts.length === 1 || end < first.length || !text.startsWith(first) || !text.endsWith(last))
    return false;
  let at = first.length;
  for (const part of parts.slice(1, -1)) {
    const found = text.indexOf(part, at);
    if (found === -1 || found + part.length > end) return false;
    at = found + part.length;
  }
  return true;
}
