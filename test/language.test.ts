/** The rules of docs/glossary.md that a machine can check. */
import assert from "node:assert/strict";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

const root = join(import.meta.dirname, "..");
const sources = globSync(
  ["packages/*/{src,web,guest}/**/*.{ts,tsx,c,h}", "{scripts,bench,test}/**/*.{ts,mjs}"],
  {
    cwd: root,
  },
);
const documents = globSync(["*.md", "docs/**/*.md", "packages/*/*.md"], { cwd: root });

/** Pronouns that hide which component acts. */
const pronouns = /\b(?:nobody|somebody|anybody|everybody|whoever)\b/i;
/** The glossary names them, and the change log is history. */
const exempt = new Set(["docs/glossary.md", "CHANGELOG.md"]);

function findLines(files: readonly string[], matches: (line: string) => boolean): string[] {
  return files.flatMap((file) =>
    readFileSync(join(root, file), "utf8")
      .split("\n")
      .flatMap((line, index) => (matches(line) ? [`${file}:${index + 1} ${line.trim()}`] : [])),
  );
}

test("comments and documents name the component that acts", () => {
  const isComment = (line: string) => /^\s*(?:\/\*|\*|\/\/)|\s\/[/*]\s/.test(line);
  assert.deepEqual(
    findLines(sources, (line) => isComment(line) && pronouns.test(line)),
    [],
  );
  assert.deepEqual(
    findLines(
      documents.filter((file) => !exempt.has(file)),
      (line) => pronouns.test(line),
    ),
    [],
  );
});

/** Words that the glossary replaced, wherever they stand. */
const replaced =
  /\b(?:lookAgain|makeWhole|openTheWay|happenings?|pretended|processor time)\b|\bstand-ins?\b/i;

test("words that the glossary replaced are gone", () => {
  const files = [...sources, ...documents].filter(
    (file) => !exempt.has(file) && !file.endsWith("language.test.ts"),
  );
  assert.deepEqual(
    findLines(files, (line) => replaced.test(line)),
    [],
  );
});

test("functions are named by verbs, not xOf", () => {
  const named = /\b(?:function\*?|const) (?!(?:one|list)Of\b)[a-z]\w*Of\b/;
  assert.deepEqual(
    findLines(sources, (line) => named.test(line)),
    [],
  );
});

test("every package says what it is in its README", () => {
  const packages = globSync("packages/*/package.json", { cwd: root }).map((file) => file.split("/")[1] ?? "");
  const described = new Set(documents.map((file) => /^packages\/([^/]+)\/README\.md$/.exec(file)?.[1]));
  assert.deepEqual(
    packages.filter((name) => !described.has(name)),
    [],
  );
});
