/**
 * Which tags have outlived their use. Rules are tried in order and the first one that fits a tag decides about it;
 * a tag that no rule fits is kept for ever. The tags of a hibernated machine (`hibernate`, its seal and the claim of a
 * node that wakes it) are never touched by any rule.
 *
 *   vk-*:released-* age=720h        given-up slots go after a month
 *   *:ci-* keep=20 age=48h          of each repository's ci- tags, all but the newest 20 go once they are two days old
 */
import { hibernateTag, sealTag, tryReadClaimTag } from "@cocoon/contract";
import { Fault, tryParseDuration } from "@cocoon/core";
import type { RepositoryName, Tag } from "../names.ts";
import { matchesPattern } from "../pattern.ts";

export interface RetentionRule {
  readonly repositories: string;
  readonly tags: string;
  /** The newest so many of the matching tags always stay. */
  readonly keep: number;
  /** What is younger always stays. */
  readonly ageMs: number;
}

interface DatedTag {
  readonly tag: Tag;
  readonly pushedAtMs: number;
}

export interface RetentionInput {
  readonly name: RepositoryName;
  readonly tags: readonly DatedTag[];
  readonly nowMs: number;
}

export function planRetention(rules: readonly RetentionRule[], { name, tags, nowMs }: RetentionInput): Tag[] {
  const byRule = new Map<RetentionRule, DatedTag[]>();
  for (const each of tags) {
    const rule = rules.find(
      (rule) => matchesPattern(rule.repositories, name) && matchesPattern(rule.tags, each.tag),
    );
    if (rule && !holdsMachine(each.tag)) byRule.set(rule, [...(byRule.get(rule) ?? []), each]);
  }
  return [...byRule].flatMap(([rule, matching]) =>
    matching
      .toSorted((a, b) => b.pushedAtMs - a.pushedAtMs)
      .slice(rule.keep)
      .filter(({ pushedAtMs }) => nowMs - pushedAtMs > rule.ageMs)
      .map(({ tag }) => tag),
  );
}

function holdsMachine(tag: Tag): boolean {
  return tag === hibernateTag || tag === sealTag || tryReadClaimTag(tag) !== undefined;
}

const rulePattern =
  /^(?<repositories>[a-z0-9._*/-]+):(?<tags>[A-Za-z0-9._*-]+)(?<limits>(?: +(?:keep|age)=[^ ]+)+)$/;

/** Reads rules as in the examples above, separated by ";". */
export function readRetentionRules(text: string): RetentionRule[] {
  return text
    .split(";")
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .map(readRule);
}

function readRule(text: string): RetentionRule {
  const groups = rulePattern.exec(text)?.groups;
  const limits = new URLSearchParams(groups?.["limits"]?.trim().replaceAll(/ +/g, "&"));
  const keep = limits.has("keep") ? Number(limits.get("keep")) : 0;
  const ageMs = limits.has("age") ? tryParseDuration(limits.get("age") ?? "") : 0;
  if (!groups || !Number.isSafeInteger(keep) || keep < 0 || ageMs === undefined || ageMs < 0)
    throw new Fault(
      "invalid",
      `retention rule "${text}" is not of the form <repositories>:<tags> [keep=<number>] [age=<duration>], with at least one of the two`,
    );
  return { repositories: groups["repositories"] ?? "", tags: groups["tags"] ?? "", keep, ageMs };
}
