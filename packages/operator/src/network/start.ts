/**
 * The controller of what a set needs beside its machines: the Service that names them, and the policy that isolates them. Nothing
 * waits for it: machines run without names.
 */
import { label } from "@cocoon/contract";
import { ignoreFault, type Abortable } from "@cocoon/core";
import {
  getKey,
  networkPolicies,
  services,
  type Caches,
  type KubeObject,
  type NetworkPolicy,
  type ObjectCache,
  type ObjectKey,
  type Pod,
  type Service,
} from "@cocoon/kube";
import {
  isControlledBy,
  OwnWrites,
  referenceTo,
  settled,
  startController,
  watchObjects,
  watchOwned,
  type Outcome,
} from "@cocoon/kube/controller";
import type { SetParts } from "../cocoonset/parts.ts";
import { cocoonSets, type CustomObject } from "../kinds.ts";
import { podChanged } from "../slim.ts";
import { formatPolicyName, planPolicy } from "./policy.ts";
import { planService } from "./service.ts";

export interface NetworkOptions extends Abortable {
  readonly caches: Caches;
  readonly sets: ObjectCache<CustomObject>;
  readonly pods: ObjectCache<Pod>;
  readonly parts: SetParts;
  readonly scope: { readonly namespace?: string };
  readonly common: Omit<Parameters<typeof startController>[0], "name" | "watches" | "reconcile">;
}

interface NetworkParts {
  readonly parts: SetParts;
  readonly services: OwnWrites<Service>;
  readonly policies: OwnWrites<NetworkPolicy>;
}

export function startNetwork(options: NetworkOptions, stack: AsyncDisposableStack): void {
  const { caches, sets, pods, parts, common } = options;
  const { client, log } = parts;
  const scope = { ...options.scope, labelSelector: label.set };
  const sources = { services: caches.open(services, scope), policies: caches.open(networkPolicies, scope) };
  const writes = {
    services: stack.use(new OwnWrites({ client, log, type: services, source: sources.services }).start()),
    policies: stack.use(
      new OwnWrites({ client, log, type: networkPolicies, source: sources.policies }).start(),
    ),
  };
  stack.use(
    startController({
      ...common,
      name: "network",
      concurrency: 2,
      watches: [
        watchObjects(sets),
        watchOwned(pods, { owner: cocoonSets, predicate: podChanged }),
        watchOwned(sources.services, { owner: cocoonSets }),
        watchOwned(sources.policies, { owner: cocoonSets }),
      ],
      reconcile: (key, context) => reconcileNetwork({ parts, ...writes }, key, context),
    }),
  );
}

async function reconcileNetwork(network: NetworkParts, key: ObjectKey, options: Abortable): Promise<Outcome> {
  const set = network.parts.sets.get(key);
  if (!set) return settled;
  await reconcilePolicy(network, set, options);
  await reconcileService(network, set, options);
  return settled;
}

async function reconcilePolicy(
  { policies, parts }: NetworkParts,
  set: CustomObject,
  options: Abortable,
): Promise<void> {
  const key = { ...getKey(set), name: formatPolicyName(set.metadata.name ?? "") };
  const policy = owned(policies.get(key), set);
  const plan = planPolicy(set, policy);
  if (plan.kind === "patch")
    await policies.patch({ key, patch: { type: "merge", body: plan.body } }, options);
  if (plan.kind === "delete" && policy) await policies.delete(policy, options);
  if (plan.kind !== "create") return;
  const created = await ignoreFault("alreadyExists", policies.ensure(plan.policy, options));
  if (!created)
    warnTaken(parts, set, {
      what: `NetworkPolicy ${key.name}`,
      so: "its machines are not isolated by this set",
    });
}

async function reconcileService(
  { services: writes, parts }: NetworkParts,
  set: CustomObject,
  options: Abortable,
): Promise<void> {
  const key = getKey(set);
  const pods = parts.pods.merge(parts.podsByOwner.get(set.metadata.uid ?? ""), (pod) =>
    isControlledBy(pod, set),
  );
  const plan = planService({ set, pods, service: owned(writes.get(key), set) });
  if (plan.kind === "patch") await writes.patch({ key, patch: { type: "merge", body: plan.body } }, options);
  if (plan.kind !== "create") return;
  const created = await ignoreFault("alreadyExists", writes.ensure(plan.service, options));
  if (!created)
    warnTaken(parts, set, { what: `Service ${key.name}`, so: "its machines have no names in DNS" });
}

function owned<T extends KubeObject>(object: T | undefined, set: CustomObject): T | undefined {
  return object && isControlledBy(object, set) ? object : undefined;
}

function warnTaken(
  { events }: SetParts,
  set: CustomObject,
  { what, so }: { readonly what: string; readonly so: string },
): void {
  events.record(referenceTo(cocoonSets, set), {
    type: "Warning",
    reason: "NameTaken",
    message: `${what} exists and does not belong to this set: ${so} until it is renamed`,
  });
}
