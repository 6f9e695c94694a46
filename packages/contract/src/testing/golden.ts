/** Wire samples kept in the repository: a change of what we read or write shows up in review as a change of these. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

export function golden(name: string): unknown {
  return JSON.parse(readFileSync(join(import.meta.dirname, "../../testdata", `${name}.json`), "utf8"));
}
