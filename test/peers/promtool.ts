/** promtool, Prometheus' own judge of alerting rules. */
import { join } from "node:path";
import { buildGoProgram } from "./go-program.ts";

export function buildPromtool(): Promise<string> {
  return buildGoProgram({
    name: "promtool",
    directory: join(import.meta.dirname, "promtool"),
    package: "github.com/prometheus/prometheus/cmd/promtool",
    tags: "remove_all_sd", // service discovery is most of the build, and rules need none of it
  });
}
