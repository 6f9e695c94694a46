/** What shells call while somebody types: one candidate per line. Whatever goes wrong, there are just fewer. */
import type { Command } from "commander";
import type { ClusterOptions } from "../cluster/session.ts";
import { candidatesFor, type NameKind } from "./candidates.ts";

/** Nobody waits longer for a completion. */
const patienceMs = 2_500;

export async function complete(typed: readonly string[], program: Command): Promise<void> {
  const { words, kinds, options } = candidatesFor(typed, program);
  const start = typed.at(-1) ?? "";
  const names = new Set(words);
  for (const kind of kinds)
    for (const name of await namesOf(kind, options)) if (name.startsWith(start)) names.add(name);
  process.stdout.write([...names].map((name) => `${name}\n`).join(""));
}

async function namesOf(kind: NameKind, options: ClusterOptions): Promise<readonly string[]> {
  if (kind === "shell") return ["bash", "zsh", "fish"];
  try {
    return await Promise.race([ask(kind, options), timeout()]);
  } catch {
    return []; // a cluster that cannot be asked has no names to offer
  }
}

function timeout(): Promise<readonly string[]> {
  return new Promise((resolve) => {
    setTimeout(() => resolve([]), patienceMs).unref();
  });
}

async function ask(kind: NameKind, options: ClusterOptions): Promise<readonly string[]> {
  if (kind === "part") return partNames(options);
  const [{ openSession }, { listAll, nameOf, tryList }, { cocoonSets }, { nodes, pods }, { isMachinePod }] =
    await Promise.all([
      import("../cluster/session.ts"),
      import("../cluster/find.ts"),
      import("../cluster/kinds.ts"),
      import("@cocoon/kube"),
      import("@cocoon/contract"),
    ]);
  await using session = await openSession(options);
  const { namespace } = session;
  if (kind === "node") return (await listAll(session, nodes)).map(nameOf);
  const sets =
    kind === "machine" ? [] : (await tryList(listAll(session, cocoonSets, { namespace }))).map(nameOf);
  if (kind === "set") return sets;
  const machines = (await tryList(listAll(session, pods, { namespace }))).filter(isMachinePod).map(nameOf);
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
