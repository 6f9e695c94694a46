/** `epoch gc` and `epoch token`: administration of the server. */
import { alignColumns, Fault } from "@cocoon/core";
import type { Command } from "commander";
import * as z from "zod";
import { scopeGrammar } from "../../auth/access.ts";
import { formatSize } from "../format-size.ts";
import { collect, type Run, type Session } from "../session.ts";

export function addAdminCommands(program: Command, run: Run): void {
  program
    .command("gc")
    .description("collect what nothing refers to, now")
    .option("--lease <duration>", "how old it must be, such as 1h (default: as the server is configured)")
    .option(
      "--untagged <duration>",
      "how long a manifest without a tag is kept (default: as the server is configured)",
    )
    .action(run(collectGarbage));
  const token = program.command("token").description("who may use the server");
  token
    .command("create")
    .argument("<name>", "what it is for")
    .description("make a token and print it, once")
    .option("--scope <scope>", `${scopeGrammar}; may be repeated`, collect, [])
    .option(
      "--expires <duration>",
      "lifetime, such as 720h; 0 for ever (default: as the server is configured)",
    )
    .action(run(createToken));
  token.command("ls").alias("list").description("list tokens").action(run(listTokens));
  token
    .command("rm")
    .argument("<id>", "number in the list")
    .description("delete a token")
    .action(run(removeToken));
}

const gcReport = z.looseObject({
  tags: z.number(),
  manifests: z.number(),
  blobs: z.number(),
  bytes: z.number(),
  skipped: z.number(),
});

async function collectGarbage(
  session: Session,
  _args: readonly string[],
  options: { readonly lease?: string; readonly untagged?: string },
): Promise<void> {
  const report = await session.call(gcReport, { method: "POST", path: "/api/gc", body: options });
  const counts = `${report.tags} tags, ${report.manifests} manifests, ${report.blobs} blobs (${formatSize(report.bytes)})`;
  if (report.skipped > 0)
    session.output.note(`${report.skipped} repositories could not be read and were left alone`);
  session.output.result(`Removed ${counts}`, report);
}

const tokenSchema = z.looseObject({
  id: z.number(),
  name: z.string(),
  scopes: z.array(z.string()).optional(),
  createdAt: z.string(),
  expiresAt: z.string().optional(),
  lastUsed: z.string().optional(),
});

async function createToken(
  session: Session,
  [name = ""]: readonly string[],
  options: { readonly scope: readonly string[]; readonly expires?: string },
): Promise<void> {
  const body = {
    name,
    ...(options.scope.length === 0 ? {} : { scopes: options.scope }),
    ...(options.expires === undefined ? {} : { expiresIn: options.expires }),
  };
  const schema = z.looseObject({ token: z.string() });
  const created = await session.call(schema, { method: "POST", path: "/api/tokens", body });
  session.output.note("The token is shown once:");
  session.output.result(created.token, created);
}

async function listTokens(session: Session): Promise<void> {
  const tokens = await session.call(z.array(tokenSchema), { method: "GET", path: "/api/tokens" });
  if (tokens.length === 0) session.output.note("No tokens");
  const rows = tokens.map((each) => [
    String(each.id),
    each.name,
    each.scopes?.join(" ") ?? "",
    each.expiresAt ?? "never",
    each.lastUsed ?? "never",
  ]);
  const header = ["ID", "NAME", "SCOPES", "EXPIRES", "LAST USED"];
  session.output.result(tokens.length === 0 ? [] : alignColumns([header, ...rows]), tokens);
}

async function removeToken(session: Session, [id = ""]: readonly string[]): Promise<void> {
  if (!/^\d+$/.test(id))
    throw new Fault("badRequest", `"${id}" is not the number of a token; see epoch token ls`);
  await session.call(z.unknown(), { method: "DELETE", path: `/api/tokens/${id}` });
  session.output.result(`Removed token ${id}`, { id: Number(id) });
}
