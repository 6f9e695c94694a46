/** Whether upstream's controller of agent-sandbox is alive in the cluster: two controllers of one kind would fight. */
import { Fault, ignoreFault, type Abortable } from "@cocoon/core";
import { deployments, type KubeClient } from "@cocoon/kube";
import { sandboxes } from "./settle.ts";

const upstream = { namespace: "agent-sandbox-system", name: "agent-sandbox-controller" };
/** A status that another program wrote this recently was written by a controller that lives. */
const recentMs = 2 * 60_000;
/** Field managers of upstream's controller, as its programs are called. */
const managers: ReadonlySet<string> = new Set(["agent-sandbox-controller", "manager"]);

interface ManagedFields {
  readonly manager?: string;
  readonly time?: string;
  readonly subresource?: string;
}

/** Throws `conflict`, naming what was found. */
export async function assertNoUpstream(client: KubeClient, now: Date, options: Abortable): Promise<void> {
  const deployment = await ignoreFault("notFound", client.get(deployments, upstream, options));
  const ready = deployment?.status?.readyReplicas ?? 0;
  if (ready > 0)
    throw refusal(`Deployment ${upstream.namespace}/${upstream.name} has ${ready} ready replicas`);
  for await (const page of client.pages(sandboxes, options)) {
    const found = page.items.find(({ metadata }) =>
      metadata.managedFields?.some((each) => isRecent(each, now)),
    );
    if (found) throw refusal(`the status of Sandbox ${found.metadata.name} was written by it just now`);
  }
}

function isRecent({ manager = "", time, subresource }: ManagedFields, now: Date): boolean {
  if (subresource !== "status" || !managers.has(manager) || time === undefined) return false;
  return now.getTime() - Date.parse(time) < recentMs;
}

function refusal(what: string): Fault {
  return new Fault(
    "conflict",
    `upstream's agent-sandbox controller is alive: ${what}. Stop it, or leave AGENT_SANDBOX off: machines keep their memory under it, too`,
  );
}
