/** `epoch fsck`: has the server compare all content with its digests, and shows what it finds. */
import { Fault, sleep } from "@cocoon/core";
import type { Command } from "commander";
import * as z from "zod";
import { formatSize } from "../format-size.ts";
import type { Run, Session } from "../session.ts";

export function addFsckCommand(program: Command, run: Run): void {
  program
    .command("fsck")
    .description("compare all content with its digests; exit code 1 when something is damaged")
    .option("--repair", "repair what can be repaired, and let the next push replace the rest")
    .action(run(checkContent));
}

const status = z.looseObject({
  isRunning: z.boolean(),
  blobs: z.number(),
  bytes: z.number(),
  unreadable: z.number(),
  damaged: z.array(
    z.looseObject({
      digest: z.string(),
      sizeBytes: z.number(),
      outcome: z.enum(["damaged", "repaired"]),
      repositories: z.array(z.string()),
    }),
  ),
  problem: z.string().optional(),
});

type Status = z.infer<typeof status>;

const pollMs = 500;

async function checkContent(
  session: Session,
  _args: readonly string[],
  { repair = false }: { readonly repair?: boolean },
): Promise<void> {
  const path = "/api/fsck";
  let report = await session.call(status, { method: "POST", path, body: { repair } });
  while (report.isRunning && (await sleep(pollMs, session)))
    report = await session.call(status, { method: "GET", path });
  session.output.result(formatReport(report), report);
  if (report.problem !== undefined) throw new Fault("unavailable", `the check failed: ${report.problem}`);
  const left = report.damaged.filter(({ outcome }) => outcome === "damaged").length;
  if (report.unreadable > 0) throw new Fault("unavailable", `${report.unreadable} blobs could not be read`);
  if (left > 0)
    throw new Fault(
      "conflict",
      repair
        ? `${left} damaged blobs could not be repaired; push what uses them again`
        : `${left} blobs are damaged; run epoch fsck --repair`,
    );
}

function formatReport({ blobs, bytes, damaged }: Status): string[] {
  const lines = damaged.map(
    ({ digest, outcome, sizeBytes, repositories }) =>
      `${outcome}  ${digest}  ${formatSize(sizeBytes)}  ${repositories.join(" ") || "(in no manifest)"}`,
  );
  return [...lines, `Checked ${blobs} blobs (${formatSize(bytes)})`];
}
