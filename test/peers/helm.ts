/** helm itself, to render our chart as its users do. */
import { join } from "node:path";
import { buildGoProgram } from "./go-program.ts";

export function buildHelm(): Promise<string> {
  return buildGoProgram({
    name: "helm",
    directory: join(import.meta.dirname, "helm"),
    package: "helm.sh/helm/v4/cmd/helm",
  });
}
