/** `cocoon image …`. */
import { createReadStream } from "node:fs";
import { Fault, isFault } from "@cocoon/core";
import type { Command } from "commander";
import { imageHeader, imageRow, jsonOfImage, table } from "./tables.ts";
import type { Open } from "./reports.ts";

export function addImageCommands(parent: Command, open: Open): void {
  const image = parent.command("image").description("images");
  image
    .command("pull")
    .argument("<image...>")
    .option("--force", "fetch again")
    .description("make images local")
    .action(async (names: string[], flags: { force?: boolean }, command: Command) => {
      await using session = open(command);
      const { images } = await session.runtime();
      for (const name of names) {
        const pulled = await images.pull(name, { force: flags.force ?? false, signal: session.signal });
        session.say(`image pulled: ${pulled.name} ${pulled.id}`);
      }
    });
  image
    .command("import")
    .argument("<name>")
    .argument("[file...]")
    .description("make an image of files, or of standard input")
    .action(async (...[name, files, , command]: [string, string[], unknown, Command]) => {
      await using session = open(command);
      const sources = files.length === 0 ? [session.io.stdin] : files.map((file) => createReadStream(file));
      const made = await (await session.runtime()).images.import(name, sources, session);
      session.say(`image imported: ${made.name} ${made.id}`);
    });
  addImageViews(image, open);
}

function addImageViews(image: Command, open: Open): void {
  image
    .command("list")
    .alias("ls")
    .option("-o, --format <format>", "table or json", "table")
    .description("list images")
    .action(async (flags: { format: string }, command: Command) => {
      await using session = open(command);
      const all = await (await session.runtime()).images.list(session);
      if (all.length === 0) return session.print("No images found.\n");
      if (flags.format === "json") return session.printJson(all.map(jsonOfImage));
      session.print(table(imageHeader, all.map(imageRow)));
    });
  image
    .command("rm")
    .argument("<id...>")
    .description("remove images")
    .action(async (ids: string[], _flags: unknown, command: Command) => {
      await using session = open(command);
      const { images } = await session.runtime();
      for (const id of ids)
        await images.remove(id, session).catch((error: unknown) => unknownImage(error, id));
    });
  image
    .command("inspect")
    .argument("<image>")
    .description("show one image as JSON")
    .action(async (name: string, _flags: unknown, command: Command) => {
      await using session = open(command);
      const found = await (
        await session.runtime()
      ).images
        .inspect(name, session)
        .catch((error: unknown) => unknownImage(error, name));
      session.printJson(jsonOfImage(found));
    });
}

function unknownImage(error: unknown, name: string): never {
  if (isFault(error, "notFound"))
    throw new Fault("notFound", `image "${name}": not found in any backend`, { cause: error });
  throw error;
}
