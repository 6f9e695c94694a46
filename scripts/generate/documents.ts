/** How generated YAML is written. */
import { stringify } from "yaml";

export function heading(lines: readonly string[]): string {
  return lines.map((line) => `#${line === "" ? "" : ` ${line}`}\n`).join("");
}

export function documents(objects: readonly object[]): string {
  return objects
    .map((object) => stringify(object, { lineWidth: 110, aliasDuplicateObjects: false }))
    .join("---\n");
}
