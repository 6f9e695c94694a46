import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { runJobs } from "./run-jobs.ts";

test("every job runs, and a failure is reported with its counts and files", async () => {
  await using directory = await temporaryDirectory();
  const write = async (name: string, body: string) => {
    const path = join(directory.path, name);
    await writeFile(path, `import assert from "node:assert"; import { test } from "node:test";\n${body}`);
    return path;
  };
  const good = await write("good.test.mjs", 'test("a", () => {}); test("b", () => {});');
  const bad = await write(
    "bad.test.mjs",
    'test("c", () => assert.fail("as it should")); test("d", () => {});',
  );
  const ends = await write("ends.test.mjs", "process.exit(7);");
  const jobs = [good, bad, ends].map((file, index) => ({
    name: file,
    files: [file],
    expectedSeconds: index,
  }));
  const reports: string[] = [];
  const results = await runJobs(jobs, {
    print: (report) => reports.push(report),
    oneTestMs: 60_000,
    allMs: 120_000,
    env: { NODE_TEST_CONTEXT: "" },
  });
  const found = (file: string) => results.find(({ job }) => job.name === file) ?? assert.fail(file);
  assert.deepEqual([found(good).isOk, found(good).counts["pass"], found(good).failedFiles], [true, 2, []]);
  assert.deepEqual(
    [found(bad).isOk, found(bad).counts["fail"], found(bad).counts["pass"], found(bad).failedFiles],
    [false, 1, 1, [bad]],
  );
  assert.match(reports.join(""), /as it should/);
  assert.deepEqual([found(ends).isOk, found(ends).failedFiles], [false, [ends]]);
});
