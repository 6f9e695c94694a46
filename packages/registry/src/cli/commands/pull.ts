/** `epoch pull`, `get`, `export`, `verify`: out of a registry. */
import { createWriteStream } from "node:fs";
import { mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { Fault } from "@cocoon/core";
import {
  listSourceFiles,
  readArtifactKind,
  openCloudImage,
  openSnapshotClient,
  resolveManifest,
  type PullReport,
  type SnapshotClient,
} from "@cocoon/oci";
import type { Command } from "commander";
import { CocoonProgram } from "../cocoon-program.ts";
import { formatSize } from "../format-size.ts";
import { collect, type Run, type Session, type Target } from "../session.ts";

interface PullOptions {
  readonly name?: string;
  readonly description?: string;
  readonly to?: string;
  readonly similar: readonly string[];
}

export function addPullCommands(program: Command, run: Run): void {
  program
    .command("pull")
    .argument("<ref>", "name[:tag]")
    .description("pull a snapshot or cloud image into this machine's runtime, or a snapshot into a directory")
    .option("--name <local>", "local name (default: the repository's)")
    .option("--description <text>", "description of the local snapshot")
    .option("--to <directory>", "write the snapshot's files here instead; must not exist")
    .option("--similar <directory>", "a snapshot that has much in common; may be repeated", collect, [])
    .action(run(pull));
  program
    .command("get")
    .argument("<ref>", "name[:tag]")
    .description("write a cloud image's disk to standard output")
    .action(run(get));
  program
    .command("export")
    .argument("<ref>", "name[:tag]")
    .description("write a snapshot as an archive")
    .option("-o, --output <file>", "file; - for standard output", "-")
    .option("--gzip", "compress the archive")
    .option("--name <local>", "name inside the archive (default: the repository's)")
    .action(run(exportCommand));
  program
    .command("verify")
    .argument("<ref>", "name[:tag]")
    .description("read a whole snapshot and check every byte")
    .action(run(verify));
}

async function pull(session: Session, [text = ""]: readonly string[], options: PullOptions): Promise<void> {
  const target = await session.target(text);
  const { signal, output } = session;
  const name = options.name ?? target.repository.name;
  const kind = readArtifactKind(
    (await resolveManifest(target.repository, target.reference, { signal })).bytes,
  );
  if (kind === "cloud-image" && options.to === undefined) {
    await importDisk(session, target, name);
    return;
  }
  if (kind !== "snapshot")
    throw new Fault(
      "badRequest",
      `${target.text} is a ${kind}; only snapshots and cloud images can be pulled`,
    );
  await using client = await openSnapshotClient();
  if (options.to !== undefined) {
    const report = await pullTo(session, client, {
      target,
      directory: resolve(options.to),
      name,
      similar: options.similar,
    });
    output.result([], { reference: target.text, directory: resolve(options.to), ...report });
    return;
  }
  const report = await withPulled(
    session,
    client,
    { target, name, similar: options.similar },
    async (directory, pulled) => {
      const archive = client.exportArchive({
        envelope: pulled.envelope,
        files: await listSourceFiles(directory),
        signal,
      });
      const described = options.description === undefined ? {} : { description: options.description };
      const runtime = new CocoonProgram(session.environment.cocoon);
      await runtime.importSnapshot(archive, { name, signal, ...described });
      return pulled;
    },
  );
  output.note(`Imported as ${name}`);
  output.result([], { reference: target.text, name, ...report });
}

interface PullRequest {
  readonly target: Target;
  readonly name: string;
  readonly similar?: readonly string[];
}

async function pullTo(
  session: Session,
  client: SnapshotClient,
  request: PullRequest & { readonly directory: string },
): Promise<PullReport> {
  const { target, directory, name, similar = [] } = request;
  using bar = session.output.progress();
  const report = await client.pull({
    repository: target.repository,
    reference: target.reference,
    directory,
    name,
    similar,
    signal: session.signal,
    onProgress: bar.update,
  });
  bar[Symbol.dispose]();
  session.output.note(`Pulled ${target.text} (${formatSize(report.bytesFetched)} fetched)\n${report.digest}`);
  return report;
}

/** The snapshot in a directory of its own, while `use` runs. */
// oxlint-disable-next-line max-params -- who, with what, what, and what then
async function withPulled<T>(
  session: Session,
  client: SnapshotClient,
  request: PullRequest,
  use: (directory: string, report: PullReport) => Promise<T>,
): Promise<T> {
  const work = await mkdtemp(join(tmpdir(), "epoch-"));
  try {
    const directory = join(work, "snapshot");
    return await use(directory, await pullTo(session, client, { ...request, directory }));
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function importDisk(session: Session, target: Target, name: string): Promise<void> {
  const { signal, output } = session;
  using bar = output.progress();
  const { repository, reference } = target;
  const { content, digest, size } = await openCloudImage({
    repository,
    reference,
    signal,
    onProgress: bar.update,
  });
  await new CocoonProgram(session.environment.cocoon).importImage(name, content, { signal });
  bar[Symbol.dispose]();
  output.note(`Imported ${target.text} as image ${name} (${formatSize(size)})`);
  output.result([], { reference: target.text, name, digest, size });
}

async function get(session: Session, [text = ""]: readonly string[]): Promise<void> {
  const { repository, reference } = await session.target(text);
  using bar = session.output.progress();
  const { content } = await openCloudImage({
    repository,
    reference,
    signal: session.signal,
    onProgress: bar.update,
  });
  await pipeline(content, session.streams.stdout, { end: false });
}

async function exportCommand(
  session: Session,
  [text = ""]: readonly string[],
  options: { readonly output: string; readonly gzip?: boolean; readonly name?: string },
): Promise<void> {
  const target = await session.target(text);
  const { signal } = session;
  await using client = await openSnapshotClient();
  const name = options.name ?? target.repository.name;
  await withPulled(session, client, { target, name }, async (directory, { envelope }) => {
    const files = await listSourceFiles(directory);
    const archive = client.exportArchive({ envelope, files, signal, gzip: options.gzip ?? false });
    if (options.output === "-") await pipeline(archive, session.streams.stdout, { end: false });
    else await writeArchive(archive, resolve(options.output));
  });
}

async function writeArchive(archive: AsyncIterable<Uint8Array>, path: string): Promise<void> {
  const partial = join(dirname(path), `.${process.pid}-${Date.now()}.part`);
  try {
    await pipeline(archive, createWriteStream(partial, { flags: "wx", mode: 0o600, flush: true }));
    await rename(partial, path);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}

async function verify(session: Session, [text = ""]: readonly string[]): Promise<void> {
  const target = await session.target(text);
  const { signal, output } = session;
  await using client = await openSnapshotClient();
  using bar = output.progress();
  const { repository, reference } = target;
  const report = await client.verify({
    repository,
    reference,
    workDirectory: tmpdir(),
    signal,
    onProgress: bar.update,
  });
  bar[Symbol.dispose]();
  const read = formatSize(report.bytesFetched);
  output.result(`${target.text} is complete and undamaged (${read} read)`, {
    reference: target.text,
    digest: report.digest,
  });
}
