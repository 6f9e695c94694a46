/** Serves agent-sandbox: Sandbox, SandboxTemplate, SandboxClaim and SandboxWarmPool. */
import { findSandboxOwner } from "@cocoon/contract";
import { services, type Caches, type ObjectCache, type Pod, type Service } from "@cocoon/kube";
import {
  findController,
  generationChanged,
  OwnWrites,
  startController,
  watchMapped,
  watchObjects,
  watchOwned,
  type Controller,
} from "@cocoon/kube/controller";
import type { CustomObject } from "../kinds.ts";
import {
  networkPolicies,
  type NetworkPolicy,
  sandboxClaims,
  sandboxTemplates,
  sandboxWarmPools,
} from "./kinds.ts";
import type { SandboxParts } from "./parts.ts";
import { claimOfSandbox, ClaimReconciler } from "./reconcile-claim.ts";
import { PoolReconciler } from "./reconcile-pool.ts";
import { SandboxReconciler } from "./reconcile-sandbox.ts";
import { TemplateReconciler } from "./reconcile-template.ts";
import { sandboxes } from "./settle.ts";

type Common = Omit<Parameters<typeof startController>[0], "name" | "watches" | "reconcile">;

export interface ServeOptions extends Pick<
  SandboxParts,
  "client" | "pods" | "podsByOwner" | "events" | "log" | "now"
> {
  readonly caches: Caches;
  readonly podCache: ObjectCache<Pod>;
  readonly scope: { readonly namespace?: string };
  readonly common: Common;
  readonly clusterDomain?: string;
}

const byOwner = (object: CustomObject): string[] => {
  const owner = findController(object);
  return owner ? [owner.uid] : [];
};

interface OpenCaches {
  readonly sandboxes: ObjectCache<CustomObject>;
  readonly claims: ObjectCache<CustomObject>;
  readonly templates: ObjectCache<CustomObject>;
  readonly pools: ObjectCache<CustomObject>;
}

export function serveSandboxes(options: ServeOptions, stack: AsyncDisposableStack): Controller[] {
  const { caches, scope, client, log } = options;
  const open: OpenCaches = {
    sandboxes: caches.open<CustomObject>(sandboxes, scope),
    claims: caches.open(sandboxClaims, scope),
    templates: caches.open(sandboxTemplates, scope),
    pools: caches.open(sandboxWarmPools, scope),
  };
  const owned = {
    services: caches.open(services, { ...scope, labelSelector: "agents.x-k8s.io/sandbox-name-hash" }),
    policies: caches.open(networkPolicies, scope),
  };
  const overlay = { client, log };
  const parts: SandboxParts = {
    ...options,
    sandboxes: stack.use(new OwnWrites({ ...overlay, type: sandboxes, source: open.sandboxes }).start()),
    claims: stack.use(new OwnWrites({ ...overlay, type: sandboxClaims, source: open.claims }).start()),
    templates: stack.use(
      new OwnWrites({ ...overlay, type: sandboxTemplates, source: open.templates }).start(),
    ),
    pools: stack.use(new OwnWrites({ ...overlay, type: sandboxWarmPools, source: open.pools }).start()),
    services: stack.use(new OwnWrites({ ...overlay, type: services, source: owned.services }).start()),
    policies: stack.use(new OwnWrites({ ...overlay, type: networkPolicies, source: owned.policies }).start()),
    sandboxesByOwner: open.sandboxes.index(byOwner),
    clusterDomain: options.clusterDomain ?? "cluster.local",
  };
  return startControllers(parts, options, { ...open, ...owned });
}

interface WatchedCaches extends OpenCaches {
  readonly services: ObjectCache<Service>;
  readonly policies: ObjectCache<NetworkPolicy>;
}

function startControllers(
  parts: SandboxParts,
  { common, podCache }: ServeOptions,
  open: WatchedCaches,
): Controller[] {
  const sandboxReconciler = new SandboxReconciler(parts);
  const claimReconciler = new ClaimReconciler(parts);
  const poolReconciler = new PoolReconciler(parts);
  const templateReconciler = new TemplateReconciler(parts);
  return [
    startController({
      ...common,
      name: "agent-sandbox",
      concurrency: 16,
      watches: [
        watchObjects(open.sandboxes),
        watchMapped(podCache, { map: sandboxOfPod }),
        watchOwned(open.services, { owner: sandboxes }),
      ],
      reconcile: (key, context) => sandboxReconciler.reconcile(key, context),
    }),
    startController({
      ...common,
      name: "agent-sandbox-claim",
      concurrency: 16,
      watches: [
        watchObjects(open.claims),
        watchMapped(open.sandboxes, { map: claimOfSandbox }),
        watchMapped(open.pools, { predicate: generationChanged, map: findClaims(open.claims) }),
      ],
      reconcile: (key, context) => claimReconciler.reconcile(key, context),
    }),
    startController({
      ...common,
      name: "agent-sandbox-pool",
      watches: [
        watchObjects(open.pools),
        watchOwned(open.sandboxes, { owner: sandboxWarmPools }),
        watchMapped(open.templates, { predicate: generationChanged, map: findPools(open.pools) }),
      ],
      reconcile: (key, context) => poolReconciler.reconcile(key, context),
    }),
    startController({
      ...common,
      name: "agent-sandbox-template",
      watches: [watchObjects(open.templates), watchOwned(open.policies, { owner: sandboxTemplates })],
      reconcile: (key, context) => templateReconciler.reconcile(key, context),
    }),
  ];
}

type Key = { readonly namespace: string | undefined; readonly name: string };

/** Also of a pod that only has the Sandbox's name: it stands in the way. */
function sandboxOfPod(pod: Pod): Key[] {
  const { namespace, name = "" } = pod.metadata;
  const owner = findSandboxOwner(pod);
  return [{ namespace, name: owner?.name ?? name }];
}

function findClaims(claims: ObjectCache<CustomObject>): (pool: CustomObject) => Key[] {
  const byPool = claims.index(({ metadata, spec }) => {
    const name = (spec as { warmPoolRef?: { name?: string } } | undefined)?.warmPoolRef?.name;
    return name ? [`${metadata.namespace}/${name}`] : [];
  });
  return ({ metadata }) => byPool.get(`${metadata.namespace}/${metadata.name}`).map(toKey);
}

function findPools(pools: ObjectCache<CustomObject>): (template: CustomObject) => Key[] {
  const byTemplate = pools.index(({ metadata, spec }) => {
    const name = (spec as { sandboxTemplateRef?: { name?: string } } | undefined)?.sandboxTemplateRef?.name;
    return name ? [`${metadata.namespace}/${name}`] : [];
  });
  return ({ metadata }) => byTemplate.get(`${metadata.namespace}/${metadata.name}`).map(toKey);
}

function toKey({ metadata }: CustomObject): Key {
  return { namespace: metadata.namespace, name: metadata.name ?? "" };
}
