/**
 * Runs the command lines of a document as a reader would: its fenced `sh` blocks from top to bottom in one shell. A `text`
 * block right after a `sh` block is what the reader is told to see: its lines must come, in that order, where "…" stands
 * for anything.
 */
import assert from "node:assert/strict";
import { runCommand } from "@cocoon/testkit";
import { listBlocks, type Block } from "../markdown.ts";
import { root } from "./home.ts";

/** Command lines of documents that no test runs, each with the reason. */
const notRun: Readonly<Record<string, string>> = {
  "npm test": "this is what runs here",
};

interface Step extends Block {
  readonly script: string;
  readonly expected: readonly string[];
}

function listSteps(document: string): Step[] {
  const blocks = listBlocks(document);
  return blocks.flatMap((block, index) => {
    if (block.language !== "sh") return [];
    const next = blocks[index + 1];
    const expected = next?.language === "text" ? next.text.split("\n").filter((line) => line !== "") : [];
    return [{ ...block, script: runnable(block.text), expected }];
  });
}

function runnable(text: string): string {
  const lines = text.split("\n").map((line) => {
    const why = notRun[line.replace(/\s+#.*$/, "")];
    return why === undefined ? line : `: not run here, because ${why}`;
  });
  return lines.join("\n");
}

const mark = "@@step ";

/** Which of a document's blocks to run, as `Array.slice` counts them. */
type Part = readonly [from: number, to?: number];

export async function runDocument(
  document: string,
  env: Readonly<Record<string, string>>,
  part: Part = [0],
): Promise<void> {
  const steps = listSteps(document).slice(...part);
  assert.ok(steps.length > 0, `${document} has no sh blocks`);
  const script = steps.map(({ line, script: text }) => `echo "${mark}${line}"\n${text}\n`).join("");
  const ran = await runCommand("bash", ["-euo", "pipefail", "-c", script], {
    cwd: root,
    env,
    timeoutMs: 15 * 60_000,
  });
  const said = new Map(
    ran.stdout
      .split(mark)
      .slice(1)
      .map((text) => {
        const end = text.indexOf("\n");
        return [Number(text.slice(0, end)), text.slice(end + 1)];
      }),
  );
  const last = [...said].at(-1);
  assert.equal(
    ran.code,
    0,
    `${document}:${last?.[0]} failed (exit ${ran.code}):\n${last?.[1]}\n${ran.stderr}`,
  );
  for (const step of steps) assertShown(step, said.get(step.line) ?? "");
}

function assertShown({ document, line, expected }: Step, output: string): void {
  let rest = output.split("\n").map(oneSpace);
  for (const wanted of expected) {
    const at = rest.findIndex((each) => matches(each, oneSpace(wanted)));
    assert.notEqual(at, -1, `${document}:${line} tells to expect "${wanted}", but the output is:\n${output}`);
    rest = rest.slice(at + 1);
  }
}

/** Whether the pieces between the ellipses come one after the other, the first and the last at the ends. */
function matches(line: string, wanted: string): boolean {
  const pieces = wanted.split("…");
  let from = 0;
  for (const piece of pieces) {
    const at = line.indexOf(piece, from);
    if (at < 0 || (from === 0 && piece === pieces[0] && at > 0)) return false;
    from = at + piece.length;
  }
  return pieces.length > 1 ? line.endsWith(pieces.at(-1) ?? "") : from === line.length;
}

function oneSpace(text: string): string {
  return text.trim().replaceAll(/\s+/g, " ");
}
