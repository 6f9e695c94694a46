/** `cocoon snapshot …`. */
import { createReadStream, createWriteStream } from "node:fs";
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { Fault, isFault } from "@cocoon/core";
import type { Command } from "commander";
import { jsonOfSnapshot } from "../wire/snapshot-json.ts";
import type { CommandSession } from "./session.ts";
import { snapshotHeader, snapshotRow, table } from "./tables.ts";
import { prefixed, type Open } from "./reports.ts";

export function addSnapshotCommands(parent: Command, open: Open): void {
  const snapshot = parent.command("snapshot").description("snapshots");
  addKeeping(snapshot, open);
  addMoving(snapshot, open);
}

function addKeeping(snapshot: Command, open: Open): void {
  snapshot
    .command("save")
    .argument("<vm>")
    .option("--name <name>")
    .option("--description <text>")
    .description("save a running VM")
    .action(async (ref: string, flags: { name?: string; description?: string }, command: Command) => {
      await using session = open(command);
      const saved = await (await session.runtime()).snapshots.save(ref, { ...flags, signal: session.signal });
      session.say(`snapshot saved: ${saved.snapshot.id}`);
    });
  snapshot
    .command("list")
    .alias("ls")
    .option("-o, --format <format>", "table or json", "table")
    .option("--vm <vm>", "only those of one VM")
    .description("list snapshots")
    .action(async (flags: { format: string; vm?: string }, command: Command) => {
      await using session = open(command);
      const options = { signal: session.signal, ...(flags.vm === undefined ? {} : { vmRef: flags.vm }) };
      const all = await (await session.runtime()).snapshots.list(options);
      if (all.length === 0)
        return session.print(
          flags.vm === undefined ? "No snapshots found.\n" : "No snapshots found for VM.\n",
        );
      if (flags.format === "json") return session.printJson(all.map((each) => jsonOfSnapshot(each)));
      session.print(table(snapshotHeader, all.map(snapshotRow)));
    });
  snapshot
    .command("inspect")
    .argument("<snapshot>")
    .description("show one snapshot as JSON")
    .action(async (ref: string, _flags: unknown, command: Command) => {
      await using session = open(command);
      const found = await (
        await session.runtime()
      ).snapshots
        .inspect(ref, session)
        .catch((error: unknown) => prefixed(error, "inspect: "));
      session.printJson(jsonOfSnapshot(found));
    });
  snapshot
    .command("rm")
    .argument("<snapshot...>")
    .description("remove snapshots")
    .action(async (refs: string[], _flags: unknown, command: Command) => {
      await using session = open(command);
      const { snapshots } = await session.runtime();
      const ids: string[] = [];
      for (const ref of refs)
        ids.push(
          (await snapshots.inspect(ref, session).catch((error: unknown) => unresolved(error, ref))).id,
        );
      for (const id of ids) await snapshots.remove(id, session);
    });
}

function unresolved(error: unknown, ref: string): never {
  if (isFault(error, "notFound"))
    throw new Fault("notFound", `rm: resolve "${ref}": snapshot not found`, { cause: error });
  throw error;
}

function addMoving(snapshot: Command, open: Open): void {
  snapshot
    .command("export")
    .argument("<snapshot>")
    .option("-o, --output <file>", '"-" = standard output')
    .option("--gzip", "compress")
    .option("--to-dir <directory>", "as files instead of an archive")
    .description("write a snapshot as an archive")
    .action(
      async (ref: string, flags: { output?: string; gzip?: boolean; toDir?: string }, command: Command) => {
        await using session = open(command);
        if (flags.toDir !== undefined) return await exportTo(session, ref, flags.toDir);
        const { snapshots } = await session.runtime();
        const { name, id } = await snapshots.inspect(ref, session);
        const archive = await snapshots.export(id, { gzip: flags.gzip ?? false, signal: session.signal });
        const fallback = `${(name || id).replaceAll(/[^\w.-]/g, "_")}.tar${flags.gzip ? ".gz" : ""}`;
        const target = flags.output ?? fallback;
        if (target === "-") return await pipeline(archive, session.io.stdout, { end: false });
        await pipeline(archive, createWriteStream(target, { mode: 0o600 }));
        session.say(`snapshot exported: ${target}`);
      },
    );
  snapshot
    .command("import")
    .argument("[file]")
    .option("--name <name>")
    .option("--description <text>")
    .description("read an archive, from standard input without a file")
    .action(
      async (file: string | undefined, flags: { name?: string; description?: string }, command: Command) => {
        await using session = open(command);
        const archive = file === undefined ? session.io.stdin : createReadStream(file);
        const imported = await (
          await session.runtime()
        ).snapshots.import(archive, { ...flags, signal: session.signal });
        session.say(`snapshot imported: ${imported.id}`);
      },
    );
}

async function exportTo(session: CommandSession, ref: string, directory: string): Promise<void> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const { snapshots } = await session.runtime();
  await snapshots.withFiles(
    ref,
    async ({ envelope, files }) => {
      for (const file of files) await copyFile(file.path, join(directory, file.name));
      await writeFile(join(directory, "snapshot.json"), `${JSON.stringify(envelope, null, 2)}\n`, {
        mode: 0o600,
      });
    },
    session,
  );
  session.say(`snapshot exported: ${directory}`);
}
