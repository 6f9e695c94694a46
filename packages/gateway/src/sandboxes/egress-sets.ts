/** Sets of sandboxes together with the egress rules of their machines. */
import { isFault, type Abortable } from "@cocoon/core";
import type { KubeObject } from "@cocoon/kube";
import type { Tenant, TenantSets } from "../tenants/tenant.ts";
import type { Egress } from "./egress.ts";
import type { EgressRules } from "./egress-rules.ts";
import { writeSandboxSpec, type Sandbox, type SandboxSpec, type SetObject } from "./sandbox.ts";

export interface EgressParts {
  readonly sets: TenantSets;
  readonly egress: Egress;
}

export interface NewSet {
  readonly tenant: Tenant;
  readonly object: KubeObject;
  readonly rules: EgressRules | undefined;
}

/** The rules are there before the machine is, and end with it. */
export async function createSet(
  { sets, egress }: EgressParts,
  { tenant, object, rules }: NewSet,
  options: Abortable,
): Promise<SetObject> {
  const owner = { namespace: tenant.namespace, name: object.metadata.name ?? "" };
  if (!rules) return sets.create(tenant, object, options);
  await egress.apply(owner, rules, options);
  try {
    const set = await sets.create(tenant, object, options);
    await egress.adopt(owner, set.metadata.uid ?? "", options);
    return set;
  } catch (error) {
    // One that exists already has them too.
    if (!isFault(error, "alreadyExists")) await egress.remove(owner, { signal: AbortSignal.timeout(10_000) });
    throw error;
  }
}

export interface NetworkChange extends Pick<SandboxSpec, "internet" | "network"> {
  readonly tenant: Tenant;
  readonly sandbox: Sandbox;
  readonly rules: EgressRules | undefined;
}

/** Replaces the egress rules. The policy first: what the sandbox says of itself is never stricter than what holds. */
export async function updateNetwork(
  { sets, egress }: EgressParts,
  { tenant, sandbox, rules, ...changes }: NetworkChange,
  options: Abortable,
): Promise<void> {
  const { uid = "" } = sandbox.set.metadata;
  const owner = { namespace: sandbox.namespace, name: sandbox.id };
  if (rules) {
    await egress.apply(owner, rules, options);
    await egress.adopt(owner, uid, options);
  }
  const { internet: _before, ...kept } = sandbox.spec;
  const annotations = writeSandboxSpec({ ...kept, ...changes });
  await sets.patch(tenant, sandbox.id, { metadata: { uid, annotations } }, options);
  if (!rules) await egress.remove(owner, options);
}
