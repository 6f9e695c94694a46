/** Two profiles must never mean the same node. */
import { matchesLabels, type LabelRequirement } from "@cocoon/core/label-selector";
import type { Texts } from "../json.ts";
import { compiledSelector, type NodeProfile, type SloConfig } from "./slo-config.ts";

export interface Compiled {
  readonly name: string;
  readonly requirements: readonly LabelRequirement[];
  readonly profile: NodeProfile;
}

/** Profiles whose selector can be used. */
export function compiledProfiles({ profiles }: SloConfig): Compiled[] {
  return profiles.flatMap((profile) => {
    const requirements = compiledSelector(profile);
    return typeof requirements === "string" ? [] : [{ name: profile.name, requirements, profile }];
  });
}

/** Names of the profiles that select a node with these labels. */
export function selecting(profiles: readonly Compiled[], labels: Texts): string[] {
  return profiles.filter(({ requirements }) => matchesLabels(requirements, labels)).map(({ name }) => name);
}

const maxSamples = 1_000;

/** The first label set, spelled out by one of the profiles, that two or more of them select. */
export function overlap(profiles: readonly Compiled[]): string[] | undefined {
  for (const { profile } of profiles)
    for (const labels of samples(profile)) {
      const names = selecting(profiles, labels);
      if (names.length > 1) return names;
    }
  return undefined;
}

/** matchLabels, and of each matchExpression with values one of them in turn; as many as there are combinations. */
function* samples({ nodeSelector = {} }: NodeProfile): Generator<Texts> {
  const lists = (nodeSelector.matchExpressions ?? []).filter(({ values = [] }) => values.length > 0);
  const product = lists.reduce((total, { values = [] }) => Math.min(total * values.length, maxSamples), 1);
  for (let index = 0; index < product; index += 1) {
    const labels: Record<string, string> = { ...nodeSelector.matchLabels };
    for (const { key, values = [] } of lists) labels[key] = values[index % values.length] ?? "";
    yield labels;
  }
}
