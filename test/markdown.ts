/** Markdown as far as tests read it: fenced blocks with their place, and links. */
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";

const root = join(import.meta.dirname, "..");

export interface Block {
  /** Relative to the repository. */
  readonly document: string;
  /** Of its first line of text, counted from 1. */
  readonly line: number;
  readonly language: string;
  readonly text: string;
}

/** Every document for readers: the top of the repository and docs/. */
export function documents(): string[] {
  return globSync(["*.md", "docs/**/*.md", "packages/*/*.md"], { cwd: root }).toSorted();
}

function readText(document: string): string {
  return readFileSync(join(root, document), "utf8");
}

export function listBlocks(document: string): Block[] {
  const blocks: Block[] = [];
  let open: { line: number; indent: string; language: string; lines: string[] } | undefined;
  for (const [index, line] of readText(document).split("\n").entries()) {
    const fence = /^(\s*)```(\S*)/.exec(line);
    if (!fence) {
      open?.lines.push(line.startsWith(open.indent) ? line.slice(open.indent.length) : line);
    } else if (open) {
      blocks.push({ document, line: open.line, language: open.language, text: open.lines.join("\n") });
      open = undefined;
    } else {
      open = { line: index + 2, indent: fence[1] ?? "", language: fence[2] ?? "", lines: [] };
    }
  }
  if (open) throw new Error(`${document}:${open.line} begins a block that never ends`);
  return blocks;
}

export interface Link {
  readonly target: string;
  readonly line: number;
}

/** Lines outside fenced blocks, with inline code left out: what is shown as code is no link. */
function listProse(document: string): { readonly text: string; readonly line: number }[] {
  let fenced = false;
  return readText(document)
    .split("\n")
    .flatMap((text, index) => {
      if (/^\s*```/.test(text)) fenced = !fenced;
      return fenced ? [] : [{ text: text.replaceAll(/`[^`]*`/g, "code"), line: index + 1 }];
    });
}

export function listLinks(document: string): Link[] {
  return listProse(document).flatMap(({ text, line }) =>
    [...text.matchAll(/\]\(([^()\s]+)\)/g)].map((match) => ({ target: match[1] ?? "", line })),
  );
}

/** Headings as GitHub names them in addresses. */
export function listAnchors(document: string): Set<string> {
  const lines = readText(document).split("\n");
  return new Set(
    lines
      .filter((line) => /^#+ /.test(line))
      .map((line) =>
        line
          .replace(/^#+ /, "")
          .toLowerCase()
          .replaceAll(/[^\p{L}\p{N} _-]/gu, "")
          .replaceAll(" ", "-"),
      ),
  );
}
