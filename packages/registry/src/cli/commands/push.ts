/** `epoch push` and `epoch import`: snapshots and disks into a registry. */
import { createReadStream } from "node:fs";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { readSnapshotEnvelope } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import {
  listSourceFiles,
  importArchive,
  openSnapshotClient,
  snapshotFormats,
  type PushReport,
  type SnapshotFormat,
  type SnapshotSource,
} from "@cocoon/oci";
import { Option, type Command } from "commander";
import { CocoonProgram } from "../cocoon-program.ts";
import { formatSize } from "../format-size.ts";
import { collect, type Run, type Session, type Target } from "../session.ts";

interface PushOptions {
  readonly tag?: string;
  readonly from?: string;
  readonly disk?: string;
  readonly baseImage?: string;
  readonly base: readonly string[];
  readonly format?: SnapshotFormat;
  readonly level?: number;
  readonly chunkMib?: number;
  readonly partMib?: number;
}

const mebibyte = 1024 * 1024;

function wholeNumber(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value) || value < 0)
    throw new Fault("badRequest", `"${text}" is not a whole number`);
  return value;
}

function addFormatOptions(command: Command): Command {
  return command
    .addOption(
      new Option(
        "--format <format>",
        "v1 for old readers, v2 for today's, packed for ours (default: v1 to the server, v2 elsewhere)",
      ).choices(snapshotFormats),
    )
    .option("--base <ref>", "packed: a snapshot to share content with; may be repeated", collect, [])
    .option("--base-image <ref>", "image that the machine was made from, recorded with the snapshot")
    .option("--level <number>", "zstd level (default: 1)", wholeNumber)
    .option(
      "--chunk-mib <number>",
      "v2: cut size in MiB (default: by the size of the snapshot)",
      wholeNumber,
    );
}

export function addPushCommands(program: Command, run: Run): void {
  addFormatOptions(
    program
      .command("push")
      .argument("<snapshot>", "name of the local snapshot and of the repository, or host/name[:tag]")
      .description("push a snapshot of this machine's runtime, a directory, an archive or a disk")
      .option("-t, --tag <tag>", "tag (default: latest)")
      .option(
        "--from <path>",
        "a snapshot's directory or archive instead of the runtime's; - for standard input",
      )
      .option("--disk <path>", "a qcow2 or raw disk, pushed as a cloud image")
      .option("--part-mib <number>", "cut a disk into parts", wholeNumber),
  ).action(run(push));
  addFormatOptions(
    program
      .command("import")
      .argument("<archive>", "tar or tar.gz of a snapshot; - for standard input")
      .argument("<ref>", "name[:tag] to push it to")
      .description("push a snapshot's archive"),
  ).action(run(importCommand));
}

async function push(session: Session, [name = ""]: readonly string[], options: PushOptions): Promise<void> {
  const target = await session.target(name, options.tag ?? "latest");
  const tagged =
    options.tag === undefined
      ? target
      : { ...target, reference: options.tag, text: withTag(target.text, options.tag) };
  if (options.disk !== undefined) await pushDisk(session, tagged, { ...options, disk: options.disk });
  else
    await withSource(session, { from: options.from, name }, (source) =>
      pushSource(session, source, { target: tagged, options }),
    );
}

function withTag(text: string, tag: string): string {
  return `${text.replace(/[:@][^:@/]*$/, "")}:${tag}`;
}

async function importCommand(
  session: Session,
  [archive = "", reference = ""]: readonly string[],
  options: PushOptions,
): Promise<void> {
  const target = await session.target(reference);
  await withSource(session, { from: archive, name: reference }, (source) =>
    pushSource(session, source, { target, options }),
  );
}

/** A snapshot's files in a directory, wherever they come from. */
async function withSource(
  session: Session,
  { from, name }: { readonly from: string | undefined; readonly name: string },
  use: (source: SnapshotSource) => Promise<void>,
): Promise<void> {
  if (from !== undefined && from !== "-" && (await stat(from)).isDirectory()) {
    await use(await readDirectory(from));
    return;
  }
  const { signal } = session;
  const work = await mkdtemp(join(tmpdir(), "epoch-"));
  const directory = join(work, "snapshot");
  const unpack = async (archive: AsyncIterable<Uint8Array>): Promise<void> => {
    await importArchive({ archive, directory, signal });
  };
  try {
    if (from === undefined)
      await new CocoonProgram(session.environment.cocoon).exportSnapshot(name, unpack, { signal });
    else await unpack(from === "-" ? session.streams.stdin : createReadStream(from));
    await use(await readDirectory(directory));
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function readDirectory(directory: string): Promise<SnapshotSource> {
  const text = await readFile(join(directory, "snapshot.json"), "utf8");
  return { envelope: readSnapshotEnvelope(JSON.parse(text)), files: await listSourceFiles(directory) };
}

async function pushSource(
  session: Session,
  source: SnapshotSource,
  { target, options }: { readonly target: Target; readonly options: PushOptions },
): Promise<void> {
  const { signal, output } = session;
  const base = await Promise.all(options.base.map((each) => session.target(each)));
  await using client = await openSnapshotClient();
  using bar = output.progress();
  const report = await client.push({
    source,
    repository: target.repository,
    tag: target.reference,
    // A server of the older generation has older readers around it.
    format: options.format ?? (target.foreign ? "v2" : "v1"),
    base,
    signal,
    onProgress: bar.update,
    ...(options.level === undefined ? {} : { level: options.level }),
    ...(options.chunkMib === undefined ? {} : { chunkBytes: options.chunkMib * mebibyte }),
    ...(options.baseImage === undefined ? {} : { baseImage: options.baseImage }),
  });
  bar[Symbol.dispose]();
  output.note(pushSummary(target.text, report));
  output.result([], { reference: target.text, ...report });
}

function pushSummary(text: string, report: PushReport): string {
  const sizes = `${formatSize(report.bytesSent)} sent, ${formatSize(report.bytesReused)} already there`;
  return `Pushed ${text} (${report.format}, ${sizes})\n${report.digest}`;
}

async function pushDisk(
  session: Session,
  target: Target,
  options: PushOptions & { readonly disk: string },
): Promise<void> {
  const { signal, output } = session;
  await using client = await openSnapshotClient();
  using bar = output.progress();
  const report = await client.pushCloudImage({
    path: options.disk,
    repository: target.repository,
    tag: target.reference,
    format: extname(options.disk) === ".raw" ? "raw" : "qcow2",
    signal,
    onProgress: bar.update,
    ...(options.partMib === undefined ? {} : { partBytes: options.partMib * mebibyte }),
  });
  bar[Symbol.dispose]();
  output.note(`Pushed ${target.text} (${formatSize(report.bytesSent)} sent)\n${report.digest}`);
  output.result([], { reference: target.text, ...report });
}
