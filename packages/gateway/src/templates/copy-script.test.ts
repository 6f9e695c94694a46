import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { writeCopyScript } from "./copy-script.ts";
import { quoteShell } from "./quote-shell.ts";

/** Packs `files`, runs the script that copies `source` to `destination`, and returns the directory of the destination. */
function copy(source: string, destination: string, mode = ""): string {
  const work = mkdtempSync(join(tmpdir(), "copy script's "));
  mkdirSync(join(work, "context", "app", "sub"), { recursive: true });
  writeFileSync(join(work, "context", "one.txt"), "one");
  writeFileSync(join(work, "context", "app", "sub", "two.txt"), "two");
  const archive = join(work, "archive");
  execFileSync("tar", ["-czf", archive, "-C", join(work, "context"), "one.txt", "app"]);
  const directory = join(work, "target");
  mkdirSync(directory);
  const script = writeCopyScript({ archive, source, destination, owner: "", mode, directory });
  execFileSync("/bin/bash", ["-c", script]);
  return directory;
}

test("a file becomes the destination, or goes into a directory", () => {
  const renamed = copy("one.txt", "deep/new name", "0600");
  assert.equal(readFileSync(join(renamed, "deep", "new name"), "utf8"), "one");
  assert.equal(statSync(join(renamed, "deep", "new name")).mode & 0o777, 0o600);
  const into = copy("one.txt", "deep/");
  assert.equal(readFileSync(join(into, "deep", "one.txt"), "utf8"), "one");
  for (const each of [renamed, into]) rmSync(join(each, ".."), { recursive: true });
});

test("the content of a directory, and what a pattern names, goes into the destination", () => {
  const content = copy("app", "srv");
  assert.equal(readFileSync(join(content, "srv", "sub", "two.txt"), "utf8"), "two");
  const matched = copy("*", "all");
  assert.equal(readFileSync(join(matched, "all", "app", "sub", "two.txt"), "utf8"), "two");
  for (const each of [content, matched]) rmSync(join(each, ".."), { recursive: true });
});

test("a quoted word is one word, whatever is in it", () => {
  const word = `a'b "c" $d \\ \n;`;
  assert.equal(execFileSync("/bin/sh", ["-c", `printf %s ${quoteShell(word)}`], { encoding: "utf8" }), word);
});
