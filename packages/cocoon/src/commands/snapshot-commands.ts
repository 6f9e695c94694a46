/** `cocoon snapshot …`. */
import { createReadStream, createWriteStream } from "node:fs";
import { copyFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { Fault, isFault } from "@cocoon/core";
import { writeSnapshotJson } from "@cocoon/vm/wire";
import type { CommandSession } from "../session.ts";
import { snapshotHeader, snapshotRow, table } from "../tables.ts";
import { prefixed } from "../reports.ts";
import { listFlag, type Verb } from "../verbs.ts";

interface SaveFlags {
  readonly name?: string;
  readonly description?: string;
}

export const saveFlags = { "--name <name>": "name of the snapshot", "--description <text>": "what it is" };

export const snapshotVerbs: readonly Verb[] = [
  {
    usage: "save <vm>",
    description: "save a running VM",
    flags: saveFlags,
    run: async (session, ref: string, flags: SaveFlags) => {
      const saved = await (await session.runtime()).snapshots.save(ref, { ...flags, signal: session.signal });
      session.say(`snapshot saved: ${saved.snapshot.id}`);
    },
  },
  {
    usage: "list",
    alias: "ls",
    description: "list snapshots",
    flags: { ...listFlag, "--vm <vm>": "only those of one VM" },
    run: async (session, { format, vm }: { format: string; vm?: string }) => {
      const options = { signal: session.signal, ...(vm === undefined ? {} : { vmRef: vm }) };
      const all = await (await session.runtime()).snapshots.list(options);
      if (all.length === 0) return session.print(`No snapshots found${vm === undefined ? "" : " for VM"}.\n`);
      if (format === "json") return session.printJson(all.map((each) => writeSnapshotJson(each)));
      session.print(table(snapshotHeader, all.map(snapshotRow)));
    },
  },
  {
    usage: "inspect <snapshot>",
    description: "show one snapshot as JSON",
    run: async (session, ref: string) => {
      const { snapshots } = await session.runtime();
      const found = await snapshots
        .inspect(ref, session)
        .catch((error: unknown) => prefixed(error, "inspect: "));
      session.printJson(writeSnapshotJson(found));
    },
  },
  {
    usage: "rm <snapshot...>",
    description: "remove snapshots",
    run: async (session, refs: string[]) => {
      const { snapshots } = await session.runtime();
      const ids: string[] = [];
      for (const ref of refs)
        ids.push(
          (await snapshots.inspect(ref, session).catch((error: unknown) => unresolved(error, ref))).id,
        );
      for (const id of ids) await snapshots.remove(id, session);
    },
  },
  {
    usage: "export <snapshot>",
    description: "write a snapshot as an archive",
    flags: {
      "-o, --output <file>": '"-" = standard output',
      "--gzip": "compress",
      "--to-dir <directory>": "as files instead of an archive",
    },
    run: exportSnapshot,
  },
  {
    usage: "import [file]",
    description: "read an archive, from standard input without a file",
    flags: saveFlags,
    run: async (session, file: string | undefined, flags: SaveFlags) => {
      const archive = file === undefined ? session.io.stdin : createReadStream(file);
      const { snapshots } = await session.runtime();
      const imported = await snapshots.import(archive, { ...flags, signal: session.signal });
      session.say(`snapshot imported: ${imported.id}`);
    },
  },
];

function unresolved(error: unknown, ref: string): never {
  if (isFault(error, "notFound"))
    throw new Fault("notFound", `rm: resolve "${ref}": snapshot not found`, { cause: error });
  throw error;
}

async function exportSnapshot(
  session: CommandSession,
  ref: string,
  { output, gzip = false, toDir }: { output?: string; gzip?: boolean; toDir?: string },
): Promise<void> {
  if (toDir !== undefined) return exportTo(session, ref, toDir);
  const { snapshots } = await session.runtime();
  const { name, id } = await snapshots.inspect(ref, session);
  const archive = await snapshots.export(id, { gzip, signal: session.signal });
  const target = output ?? `${(name || id).replaceAll(/[^\w.-]/g, "_")}.tar${gzip ? ".gz" : ""}`;
  if (target === "-") return pipeline(archive, session.io.stdout, { end: false });
  await pipeline(archive, createWriteStream(target, { mode: 0o600 }));
  session.say(`snapshot exported: ${target}`);
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
