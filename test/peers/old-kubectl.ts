/** kubectl 1.30, the last whose streams are SPDY all the way. */
import { join } from "node:path";
import { buildGoProgram } from "./go-program.ts";

export function buildOldKubectl(): Promise<string> {
  return buildGoProgram({
    name: "kubectl-1.30",
    directory: join(import.meta.dirname, "old-kubectl"),
    package: ".",
    sources: ["main.go"],
  });
}
