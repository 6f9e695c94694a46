/** How generated YAML is written. */
import { stringify } from "yaml";

export function heading(lines: readonly string[]): string {
  return lines.map((line) => `#${line === "" ? "" : ` ${line}`}\n`).join("");
}

/** Words that YAML 1.1 takes for booleans (`on`, `yes`) are quoted: kubectl and Helm read YAML 1.1. */
export const yamlStyle = { lineWidth: 110, aliasDuplicateObjects: false, compat: "yaml-1.1" } as const;

export function documents(objects: readonly object[]): string {
  return objects.map((object) => stringify(object, yamlStyle)).join("---\n");
}
