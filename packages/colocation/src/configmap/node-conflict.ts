/** A node that two profiles of one key select. */
import type { Texts } from "../json.ts";
import { compiledProfiles, selecting } from "./overlap.ts";
import type { SloConfig } from "./slo-config.ts";
import { structured } from "./structured.ts";

/** What to tell about the first such key; undefined when there is none. The reason's spelling is what tools look for. */
export function nodeConflict(
  configs: readonly SloConfig[],
  node: { readonly name: string; readonly labels: Texts },
): string | undefined {
  for (const config of configs) {
    if (config.profiles.length < 2) continue;
    const strategies = selecting(compiledProfiles(config), node.labels);
    if (strategies.length > 1)
      return structured("ExistNodeConfict", { config: config.key, strategies, exampleNodes: [node.name] });
  }
  return undefined;
}
