/**
 * Network configuration lists as CNI has them: found in a directory, read, and turned into what one plugin gets. Unknown
 * keys are the plugins' own and stay as they are.
 */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { Fault, getErrorMessage, systemCode, toFault } from "@cocoon/core";
import * as z from "zod";

const pluginSchema = z.looseObject({
  type: z.string().regex(/^[\w][\w.-]*$/, "is no name of a plugin"),
  capabilities: z.record(z.string(), z.boolean()).optional(),
});

export const conflistSchema = z.looseObject({
  cniVersion: z.string().regex(/^\d+\.\d+\.\d+$/, "is no version such as 1.0.0"),
  cniVersions: z.array(z.string()).optional(),
  name: z.string().regex(/^[A-Za-z0-9][\w.-]*$/, "is no name of a network"),
  disableCheck: z.boolean().optional(),
  disableGC: z.boolean().optional(),
  plugins: z.array(pluginSchema).min(1),
});

export type Conflist = Readonly<z.infer<typeof conflistSchema>>;
export type PluginConfig = Conflist["plugins"][number];

/** Versions of the specification that results and commands are understood of, oldest first. */
const knownVersions = ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"] as const;

/** The text of a `.conflist`, or of a `.conf` with one plugin. */
export function parseConflist(text: string, path: string): Conflist {
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch (error) {
    throw new Fault("invalid", `${path} is no JSON: ${getErrorMessage(error)}`, { cause: error });
  }
  const parsed = conflistSchema.safeParse(asList(content));
  if (!parsed.success) {
    const issues = parsed.error.issues.map((issue) => `${issue.path.join(".")}: ${issue.message}`);
    throw new Fault("invalid", `${path} is no CNI network configuration: ${issues.join("; ")}`);
  }
  return { ...parsed.data, cniVersion: chooseVersion(parsed.data, path) };
}

/** A file with a single plugin is a list of one. */
function asList(content: unknown): unknown {
  if (typeof content !== "object" || content === null || !("type" in content)) return content;
  const { cniVersion = "0.3.1", name, ...plugin }: Record<string, unknown> = { ...content };
  return { cniVersion, name, plugins: [plugin] };
}

/** The newest that both sides know. Results before 0.3 have another shape and are not read. */
function chooseVersion(
  { cniVersion, cniVersions = [] }: z.infer<typeof conflistSchema>,
  path: string,
): string {
  const offered = new Set([cniVersion, ...cniVersions]);
  const version = knownVersions.findLast((each) => offered.has(each));
  if (version === undefined)
    throw new Fault(
      "notSupported",
      `${path}: cniVersion ${cniVersion} is not supported; use one of ${knownVersions.join(", ")}`,
    );
  return version;
}

export function isAtLeast(list: Conflist, version: (typeof knownVersions)[number]): boolean {
  return knownVersions.findIndex((each) => each === list.cniVersion) >= knownVersions.indexOf(version);
}

/** Names of the readable lists of a directory in the order of their files; the first is the default. */
export async function listConflists(directory: string): Promise<string[]> {
  const lists = await readAll(directory);
  return lists.flatMap(({ list }) => (list ? [list.name] : []));
}

/** Reads anew each time: a network plugin may rewrite its file whenever it is upgraded. */
export async function loadConflist(directory: string, name: string | undefined): Promise<Conflist> {
  const lists = await readAll(directory);
  if (lists.length === 0)
    throw new Fault(
      "unavailable",
      `${directory} has no CNI network configuration (*.conflist): install the cluster's network plugin on this node`,
    );
  const wanted = lists.find(({ list }) => list && (name === undefined || list.name === name));
  if (wanted?.list) return wanted.list;
  const damaged = lists.find(({ problem }) => problem !== undefined);
  if (damaged) throw toFault(damaged.problem, directory);
  const known = lists.flatMap(({ list }) => (list ? [list.name] : []));
  throw new Fault("invalid", `CNI network "${name}" is not in ${directory}; there are: ${known.join(", ")}`);
}

interface ReadList {
  readonly list?: Conflist;
  readonly problem?: unknown;
}

async function readAll(directory: string): Promise<ReadList[]> {
  const files = await readdir(directory).catch((error: unknown) => {
    if (systemCode(error) === "ENOENT") return [];
    throw error;
  });
  const names = files.filter((file) => /\.(conflist|conf|json)$/.test(file)).sort();
  return Promise.all(
    names.map(async (file) => {
      const path = join(directory, file);
      try {
        return { list: parseConflist(await readFile(path, "utf8"), path) };
      } catch (problem) {
        return { problem };
      }
    }),
  );
}

/** What one plugin reads on its standard input. Runtime settings go only to plugins that ask for them. */
export function buildPluginInput(
  list: Conflist,
  plugin: PluginConfig,
  more: {
    readonly runtimeConfig: Readonly<Record<string, unknown>>;
    readonly prevResult?: unknown;
    readonly validAttachments?: readonly unknown[];
  },
): Record<string, unknown> {
  const { capabilities = {}, ...settings } = plugin;
  const runtimeConfig = Object.fromEntries(
    Object.entries(more.runtimeConfig).filter(([key]) => capabilities[key]),
  );
  return {
    ...settings,
    cniVersion: list.cniVersion,
    name: list.name,
    ...(Object.keys(runtimeConfig).length > 0 ? { runtimeConfig } : {}),
    ...(more.prevResult === undefined ? {} : { prevResult: more.prevResult }),
    ...(more.validAttachments ? { "cni.dev/valid-attachments": more.validAttachments } : {}),
  };
}
