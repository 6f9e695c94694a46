/** New sets from machines of a set: a fork goes on from where the machine is now, a snapshot keeps that, a restore starts from one. */
import type { SetRow } from "../../../src/shared/rows.ts";
import { ApiError, kube, mergePatch, session } from "../api/client.ts";
import { setPath } from "../api/paths.ts";
import { cocoonGroup } from "../api/rights.ts";
import { buildPath, navigate } from "../route.ts";
import { texts } from "../texts.ts";
import { commandLine, namePattern, type Action } from "./action.ts";

interface Agent extends Readonly<Record<string, unknown>> {
  readonly image: string;
}

interface SetSpec extends Readonly<Record<string, unknown>> {
  readonly agent: Agent;
}

interface SetObject {
  readonly metadata: { readonly name: string; readonly uid: string; readonly generation: number };
  readonly spec: SetSpec;
  readonly status?: { readonly phase?: string; readonly observedGeneration?: number };
}

type Source = Pick<SetRow, "namespace" | "name">;

/** What a copy has in common with its original: size and place, but no sub-agents, toolboxes or schedule. */
const keptFields = ["nodePool", "snapshotCompatibilityClass", "snapshotPolicy", "hibernatePolicy"] as const;

function copySpec(spec: SetSpec | undefined, image: string): SetSpec {
  const kept = keptFields.flatMap((field) => {
    const value = spec?.[field];
    return value === undefined ? [] : [[field, value] as const];
  });
  const { replicas: _replicas, from: _from, forkFrom: _forkFrom, ...agent } = spec?.agent ?? { image };
  return { ...Object.fromEntries(kept), agent: { ...agent, image: agent.image } };
}

function createSet(namespace: string, name: string, spec: SetSpec): Promise<SetObject> {
  const body = {
    apiVersion: `${cocoonGroup}/v1`,
    kind: "CocoonSet",
    metadata: { namespace, name },
    spec,
  };
  return kube<SetObject>(setPath(namespace), { method: "POST", body });
}

async function createFork(set: SetRow, name: string, more: Readonly<Record<string, unknown>> = {}) {
  const { spec } = await kube<SetObject>(setPath(set.namespace, set.name));
  const copy = copySpec(spec, set.image);
  const node = set.members.find(({ role }) => role === "main")?.node;
  const agent = { ...copy.agent, mode: "run", forkFrom: { set: set.name } };
  return createSet(set.namespace, name, { ...copy, ...(node ? { nodeName: node } : {}), agent, ...more });
}

/** The command that makes the same object; jq, because there is no command of its own for it. */
function forkCommand(set: SetRow, name: string, more = ""): string {
  const { namespace } = set;
  const node = set.members.find(({ role }) => role === "main")?.node ?? "";
  const filter = `{apiVersion, kind, metadata: {name: "${name}"}, spec: ({nodeName: "${node}", agent: (.spec.agent | del(.replicas, .from) + {mode: "run", forkFrom: {set: "${set.name}"}})}${more})}`;
  const read = commandLine("kubectl", "get", "cocoonset", set.name, "-n", namespace, "-o", "json");
  return `${read} | jq '${filter}' | ${commandLine("kubectl", "create", "-n", namespace, "-f", "-")}`;
}

const nameInput = (initial: string) =>
  ({ kind: "text", label: texts.action.newName, initial, pattern: namePattern }) as const;

const createRight = ({ namespace }: Source) => ({
  verb: "create",
  group: cocoonGroup,
  resource: "cocoonsets",
  namespace,
});

export function forkActions(set: SetRow): Action[] {
  if (set.suspend || set.phase !== "Running") return [];
  return [
    {
      title: texts.action.fork,
      explain: [texts.explain.fork],
      right: createRight(set),
      inputs: [nameInput(`${set.name}-fork`)],
      command: ([name = ""]) => forkCommand(set, name),
      run: async ([name = ""]) => {
        await createFork(set, name);
        navigate(buildPath("sets", set.namespace, name));
      },
    },
    {
      title: texts.action.snapshot,
      explain: [texts.explain.snapshot],
      right: createRight(set),
      inputs: [nameInput(`${set.name}-saved`)],
      command: ([name = ""]) =>
        `${forkCommand(set, name, ' + {hibernatePolicy: "release"}')} && ${commandLine("kubectl", "wait", `cocoonset/${name}`, "-n", set.namespace, "--for=jsonpath={.status.phase}=Running")} && ${commandLine("cocoonctl", "suspend", name, "-n", set.namespace)}`,
      run: ([name = ""]) => saveSnapshot(set, name),
    },
  ];
}

const savingMs = 10 * 60_000;
const lookEveryMs = 1_000;

/** A fork that is put to sleep. If this page is closed in between, the fork ends by itself. */
async function saveSnapshot(set: SetRow, name: string): Promise<void> {
  const { namespace } = set;
  const endsAt = Date.now() + savingMs;
  const expire = { at: new Date(endsAt).toISOString(), action: "Delete" };
  const { metadata } = await createFork(set, name, { hibernatePolicy: "release", expire });
  for (;;) {
    const { status, metadata: seen } = await kube<SetObject>(setPath(namespace, name));
    if (seen.uid !== metadata.uid) throw new ApiError(409, { message: texts.action.replaced(name) });
    if (status?.phase === "Running" && (status.observedGeneration ?? 0) >= metadata.generation) break;
    if (status?.phase === "Failed" || Date.now() > endsAt)
      throw new ApiError(500, { message: texts.action.notSaved(name) });
    await new Promise((resolve) => setTimeout(resolve, lookEveryMs));
  }
  await mergePatch(setPath(namespace, name), {
    metadata: { uid: metadata.uid },
    spec: { suspend: true, expire: null },
  });
  navigate(buildPath("sets", namespace, name));
}

/** Snapshots are written `machine:tag`. */
const snapshotPattern = String.raw`[a-z0-9]([\-a-z0-9.]{0,61}[a-z0-9])?-\d+:[A-Za-z0-9_][A-Za-z0-9._\-]{0,127}`;

export function restoreAction(source: Source & Partial<Pick<SetRow, "image">>): Action {
  const { namespace, name } = source;
  return {
    title: texts.action.restore,
    explain: [texts.explain.restore],
    right: createRight(source),
    inputs: [
      {
        kind: "text",
        label: texts.action.whichSnapshot,
        initial: `${name}-0:latest`,
        pattern: snapshotPattern,
        loadChoices: async () =>
          (await session.snapshots(namespace, name)).map(({ machine, tag }) => `${machine}:${tag}`),
      },
      nameInput(`${name}-restored`),
    ],
    command: ([snapshot = "", as = ""]) => {
      const [machine = "", tag = ""] = snapshot.split(":");
      return commandLine("cocoonctl", "snapshot", "restore", machine, tag, "--as", as, "-n", namespace);
    },
    run: async ([snapshot = "", as = ""]) => {
      await restoreSet(source, snapshot, as);
      navigate(buildPath("sets", namespace, as));
    },
  };
}

async function restoreSet({ namespace, name: set }: Source, snapshot: string, as: string): Promise<void> {
  const [machine = "", tag = "latest"] = snapshot.split(":");
  const slot = Number(machine.slice(machine.lastIndexOf("-") + 1));
  const original = await kube<SetObject>(setPath(namespace, set)).catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 404) return undefined;
    throw error;
  });
  const image = `vk-${namespace}-${machine}:${tag}`;
  const copy = copySpec(original?.spec, image);
  await createSet(namespace, as, {
    ...copy,
    agent: { ...copy.agent, image, mode: "clone", from: { set, slot, tag } },
  });
}
