/** apikey: keys of the gateway. */
import { createApiKey, listApiKeys, revokeApiKey, type ApiKey } from "../../cluster/api-keys.ts";
import { openSession, type ClusterOptions } from "../../cluster/session.ts";
import { clusterOptions, outputOption, type CommandSpec } from "../../command-spec.ts";
import { readFormat, serialize } from "../../output.ts";
import { age, formatTable, type Column } from "../../table.ts";

export const command: CommandSpec = {
  usage: "apikey",
  summary: "create, list and revoke API keys of the gateway",
  description:
    "Keys that the E2B SDKs send to the gateway. A key acts in one namespace, with the rights of its ServiceAccount cocoon-sandbox.",
  commands: [
    {
      usage: "create <name>",
      description: "make a key and print it; it cannot be read again",
      options: clusterOptions,
      examples: ["cocoonctl apikey create ci", "cocoonctl apikey create ci -n team-a"],
      run: create,
    },
    {
      usage: "list",
      alias: "ls",
      description: "list the keys of the namespace, without the keys themselves",
      options: { ...clusterOptions, ...outputOption() },
      examples: ["cocoonctl apikey list", "cocoonctl apikey list -o json"],
      run: list,
    },
    {
      usage: "revoke <name>",
      description: "make a key useless, at once and for good",
      options: clusterOptions,
      examples: ["cocoonctl apikey revoke ci"],
      run: revoke,
    },
  ],
};

async function create(name: string, options: ClusterOptions): Promise<void> {
  await using session = await openSession(options);
  const key = await createApiKey(session.client, { namespace: session.namespace, name }, session);
  process.stdout.write(`${key}\n`);
}

async function list(options: ClusterOptions & { readonly output: string }): Promise<void> {
  const format = readFormat(options.output);
  await using session = await openSession(options);
  const keys = await listApiKeys(session.client, session.namespace, session);
  if (format === "json" || format === "yaml") process.stdout.write(await serialize(format, keys));
  else if (format === "name") process.stdout.write(keys.map(({ name }) => `${name}\n`).join(""));
  else process.stdout.write(`${formatTable(columns, keys)}\n`);
}

const columns: readonly Column<ApiKey>[] = [
  { title: "NAME", cell: ({ name }) => name },
  { title: "KEY", cell: ({ mask }) => mask },
  { title: "AGE", cell: ({ createdAt }) => age(Date.now() - Date.parse(createdAt)) },
];

async function revoke(name: string, options: ClusterOptions): Promise<void> {
  await using session = await openSession(options);
  await revokeApiKey(session.client, { namespace: session.namespace, name }, session);
  process.stdout.write(`apikey ${name} revoked\n`);
}
