/**
 * Checks the titles of commits: under 72 characters, no full stop. Only commits after the one that added this file
 * count, so older history stays as it is. Without git, or in a clone that is too shallow, there is nothing to check.
 *
 *   node scripts/commit-titles.ts
 */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const limit = 72;
const root = fileURLToPath(new URL("..", import.meta.url));

function git(...args: string[]): string | undefined {
  const result = spawnSync("git", args, { cwd: root, encoding: "utf8" });
  return result.status === 0 ? result.stdout.trim() : undefined;
}

const file = "scripts/commit-titles.ts";
const introduced = git("log", "--diff-filter=A", "--format=%H", "--", file)?.split("\n").at(-1);
const log = introduced
  ? git("log", "--no-merges", "--ancestry-path", "--format=%h%x09%s", `${introduced}..HEAD`)
  : undefined;
const faults = (log ?? "")
  .split("\n")
  .map((line) => line.split("\t"))
  .flatMap(([commit, title = ""]) => {
    if (title.length >= limit)
      return [`${commit}: ${title.length} characters, must be under ${limit}: ${title}`];
    return title.endsWith(".") ? [`${commit}: ends with a full stop: ${title}`] : [];
  });
for (const fault of faults) console.error(fault);
if (faults.length > 0) process.exitCode = 1;
