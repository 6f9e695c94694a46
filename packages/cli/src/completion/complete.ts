/** What shells call while a user types: one candidate per line. A failure only means fewer candidates. */
import type { Command } from "commander";
import type { ClusterOptions } from "../cluster/session.ts";
import { candidatesFor, type NameKind } from "./candidates.ts";

/** Longer than this a completion is of no use. */
const timeoutMs = 2_500;

export async function complete(typed: readonly string[], program: Command): Promise<void> {
  const { words, kinds, options } = candidatesFor(typed, program);
  const start = typed.at(-1) ?? "";
  const names = new Set(words);
  for (const kind of kinds)
    for (const name of await findNames(kind, options)) if (name.startsWith(start)) names.add(name);
  process.stdout.write([...names].map((name) => `${name}\n`).join(""));
}

async function findNames(kind: NameKind, options: ClusterOptions): Promise<readonly string[]> {
  if (kind === "shell") return ["bash", "zsh", "fish"];
  try {
    return await Promise.race([listNames(kind, options), timeout()]);
  } catch {
    return []; // a cluster that cannot be reached has no names to offer
  }
}

function timeout(): Promise<readonly string[]> {
  return new Promise((resolve) => {
    setTimeout(() => resolve([]), timeoutMs).unref();
  });
}

async function listNames(kind: NameKind, options: ClusterOptions): Promise<readonly string[]> {
  if (kind === "part") return partNames(options);
  const [{ openSession }, { listAll, getName, tryList }, { cocoonSets }, { nodes, pods }, { isMachinePod }] =
    await Promise.all([
      import("../cluster/session.ts"),
      import("../cluster/find.ts"),
      import("../cluster/kinds.ts"),
      import("@cocoon/kube"),
      import("@cocoon/contract"),
    ]);
  await using session = await openSession(options);
  const { namespace } = session;
  if (kind === "node") return (await listAll(session, nodes)).map(getName);
  const sets =
    kind === "machine" ? [] : (await tryList(listAll(session, cocoonSets, { namespace }))).map(getName);
  if (kind === "set") return sets;
  const machines = (await tryList(listAll(session, pods, { namespace }))).filter(isMachinePod).map(getName);
  const more = kind === "what" ? ["sets", "vms"] : kind === "name" ? await partNames(options) : [];
  return [...more, ...sets, ...machines];
}

async function partNames(options: ClusterOptions): Promise<readonly string[]> {
  const [{ homeDirectory }, { knownPlatform }] = await Promise.all([
    import("../home.ts"),
    import("../platform.ts"),
  ]);
  const platform = await knownPlatform(homeDirectory(options, process.env), process.env);
  return platform?.components.map(({ name }) => name) ?? [];
}
