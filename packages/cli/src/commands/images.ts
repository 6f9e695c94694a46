/** images: what machines can be started from. */
import { openSession, type ClusterOptions } from "../cluster/session.ts";
import { listKnownImages, type KnownImage } from "../images/known-images.ts";
import { commandName } from "../invocation.ts";
import { readFormat, serialize } from "../output.ts";
import { formatSize } from "./snapshot/ls.ts";
import { tryOpenRegistry, type RegistryOptions } from "../snapshots/registry-access.ts";
import { formatTable } from "../table.ts";
import { clusterOptions, outputOption, type CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "images",
  summary: "images that machines can be started from",
  description:
    "Lists built-in images, images that this machine's platform keeps, and images and named snapshots of the registry.",
  options: {
    "--registry <address>": "registry (default: OCI_REGISTRY, else EPOCH_URL, else the platform's)",
    ...outputOption("table, json, yaml or name"),
    ...clusterOptions,
  },
  examples: ["cocoonctl images", "cocoonctl images -o name"],
  run: images,
};

export interface ImagesOptions extends ClusterOptions, RegistryOptions {
  readonly output: string;
}

export async function images(options: ImagesOptions): Promise<void> {
  const format = readFormat(options.output, ["table", "json", "yaml", "name"]);
  await using session = await openSession(options);
  await using registry = await tryOpenRegistry(options, session.target);
  const found = await listKnownImages(session, registry);
  if (format === "json" || format === "yaml") process.stdout.write(await serialize(format, found));
  else if (format === "name") process.stdout.write(found.map(({ name }) => `${name}\n`).join(""));
  else
    process.stdout.write(
      `${imageTable(found)}\n\nStart a machine: ${commandName()} create NAME --image IMAGE\n`,
    );
  if (!registry)
    process.stderr.write(
      "No registry is named, so its images are not shown; set OCI_REGISTRY or EPOCH_URL, or give --registry.\n",
    );
}

export function imageTable(found: readonly KnownImage[]): string {
  return formatTable(
    [
      { title: "IMAGE", cell: ({ name }) => name },
      { title: "KIND", cell: ({ kind }) => kind },
      { title: "MODE", cell: ({ kind }) => (kind === "snapshot" ? "clone" : "run") },
      { title: "SIZE", cell: ({ sizeBytes }) => (sizeBytes > 0 ? formatSize(sizeBytes) : "") },
    ],
    found,
  );
}
