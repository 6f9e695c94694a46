/** Hibernate and wake: one machine, by the CocoonHibernation that is named like its pod. The same steps as `cocoonctl`. */
import type { HibernationRow, MachineRow } from "../../../src/shared/rows.ts";
import { ApiError, kube, mergePatch } from "../api/client.ts";
import { hibernationPath } from "../api/paths.ts";
import { cocoonGroup } from "../api/rights.ts";
import { texts } from "../texts.ts";
import { commandLine, type Action } from "./action.ts";

type Desire = "Hibernate" | "Wake";

const awake: ReadonlySet<string> = new Set(["ready", "not ready", "waking", "creating"]);

export function listMachineActions(machine: MachineRow, hibernation: HibernationRow | undefined): Action[] {
  const desire: Desire = awake.has(machine.state) ? "Hibernate" : "Wake";
  return [buildAction(machine, hibernation, desire)];
}

export function wakeAction(machine: MachineRow, hibernation: HibernationRow | undefined): Action {
  return buildAction(machine, hibernation, "Wake");
}

function buildAction(machine: MachineRow, before: HibernationRow | undefined, desire: Desire): Action {
  const { namespace, name } = machine;
  const word = desire === "Wake" ? "wake" : "hibernate";
  return {
    title: texts.action[word],
    explain: [texts.explain[word]],
    right: {
      verb: before ? "patch" : "create",
      group: cocoonGroup,
      resource: "cocoonhibernations",
      namespace,
    },
    command: () => commandLine("cocoonctl", word, name, "-n", namespace),
    run: () => request(machine, before, desire),
  };
}

function request(machine: MachineRow, before: HibernationRow | undefined, desire: Desire): Promise<unknown> {
  const { namespace, name } = machine;
  if (!before) return create(machine, desire);
  if (before.desire !== desire) return mergePatch(hibernationPath(namespace, name), { spec: { desire } });
  if (before.phase === "Failed") {
    const annotations = { [`${cocoonGroup}/retry`]: new Date().toISOString() };
    return mergePatch(hibernationPath(namespace, name), { metadata: { annotations } });
  }
  return before.phase === "Active" && desire === "Wake" ? replace(machine) : Promise.resolve();
}

function create({ namespace, name }: MachineRow, desire: Desire): Promise<unknown> {
  const body = {
    apiVersion: `${cocoonGroup}/v1`,
    kind: "CocoonHibernation",
    metadata: { namespace, name },
    spec: { podRef: { name }, desire },
  };
  return kube(hibernationPath(namespace), { method: "POST", body });
}

/** An object describes one wake; a completed one is replaced for the next. */
async function replace(machine: MachineRow): Promise<unknown> {
  await kube(hibernationPath(machine.namespace, machine.name), { method: "DELETE" });
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await create(machine, "Wake");
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 409 || attempt >= 100) throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
