/** `cocoon image …`. */
import { createReadStream } from "node:fs";
import { Fault, isFault } from "@cocoon/core";
import { imageHeader, imageRow, writeImageJson, table } from "../tables.ts";
import { listFlag, type Verb } from "../verbs.ts";

export const imageVerbs: readonly Verb[] = [
  {
    usage: "pull <image...>",
    description: "make images local",
    flags: { "--force": "fetch again" },
    run: async (session, names: string[], { force = false }: { force?: boolean }) => {
      const { images } = await session.runtime();
      for (const name of names) {
        const pulled = await images.pull(name, { force, signal: session.signal });
        session.say(`image pulled: ${pulled.name} ${pulled.id}`);
      }
    },
  },
  {
    usage: "import <name> [file...]",
    description: "make an image of files, or of standard input",
    run: async (session, name: string, files: string[]) => {
      const sources = files.length === 0 ? [session.io.stdin] : files.map((file) => createReadStream(file));
      const made = await (await session.runtime()).images.import(name, sources, session);
      session.say(`image imported: ${made.name} ${made.id}`);
    },
  },
  {
    usage: "list",
    alias: "ls",
    description: "list images",
    flags: listFlag,
    run: async (session, { format }: { format: string }) => {
      const all = await (await session.runtime()).images.list(session);
      if (all.length === 0) return session.print("No images found.\n");
      if (format === "json") return session.printJson(all.map(writeImageJson));
      session.print(table(imageHeader, all.map(imageRow)));
    },
  },
  {
    usage: "rm <id...>",
    description: "remove images",
    run: async (session, ids: string[]) => {
      const { images } = await session.runtime();
      for (const id of ids)
        await images.remove(id, session).catch((error: unknown) => unknownImage(error, id));
    },
  },
  {
    usage: "inspect <image>",
    description: "show one image as JSON",
    run: async (session, name: string) => {
      const { images } = await session.runtime();
      const found = await images.inspect(name, session).catch((error: unknown) => unknownImage(error, name));
      session.printJson(writeImageJson(found));
    },
  },
];

function unknownImage(error: unknown, name: string): never {
  if (isFault(error, "notFound"))
    throw new Fault("notFound", `image "${name}": not found in any backend`, { cause: error });
  throw error;
}
