/** The paths of the webhook and who answers on them. */
import { listCollisions, type NameClaim } from "@cocoon/contract";
import { ignoreFault, type Abortable } from "@cocoon/core";
import { deployments, replicaSets, statefulSets } from "@cocoon/kube";
import type { AdmissionEndpoint, AdmissionHandler } from "@cocoon/kube/admission";
import type { EventRecorder } from "@cocoon/kube/controller";
import { findHibernations } from "./hibernations.ts";
import type { SpecShape } from "./handlers/cocoonset-shape.ts";
import { decideGate, decideSetPod } from "./handlers/gate.ts";
import type { AdmissionResult } from "./handlers/admission-result.ts";
import { mutatePods, type MachinePod } from "./handlers/mutate.ts";
import { mutateWorkloads } from "./handlers/mutate-workload.ts";
import { decideSticky } from "./handlers/sticky.ts";
import { validateSets } from "./handlers/validate-cocoonset.ts";
import { validateHibernations } from "./handlers/validate-hibernation.ts";
import { validateWorkloads, type Parent, type ParentKey } from "./handlers/validate-workload.ts";
import { IdentityWriters } from "./identity/identity-writers.ts";
import { createSourceAccess, type SourceAccess } from "./identity/source-access.ts";
import { setExists } from "./sets.ts";
import type { Parts } from "./start.ts";
import type { Granted } from "./store/claim-request.ts";
import { collisionText } from "./store/collisions.ts";
import { readWorkloadFacts } from "./workloads.ts";

type Decide = (...args: Parameters<AdmissionHandler>) => AdmissionResult | Promise<AdmissionResult>;

export function createEndpoints(parts: Parts): Record<string, AdmissionEndpoint> {
  const { options, model } = parts;
  const identity = createIdentityRules(parts);
  const handlers: Readonly<Record<string, readonly [name: string, decide: Decide]>> = {
    "/mutate": ["mutate", createPodHandler(parts, identity)],
    "/mutate-workload": ["mutate_workload", mutateWorkloads],
    "/validate": [
      "validate",
      validateWorkloads({
        findParent: (key, call) => findParent(key, parts, call),
        guardDeletion: options.rules.guardDeletion,
      }),
    ],
    "/validate-cocoonset": [
      "validate_cocoonset",
      validateSets({
        collisions: (claim) => findCollisions(claim, parts),
        findWarnings: (spec) => findWarnings(spec, parts),
        isAbsent: options.snapshots.isAbsent,
        sourceAccess: identity.sourceAccess,
      }),
    ],
    "/validate-cocoonhibernation": [
      "validate_cocoonhibernation",
      validateHibernations({
        referringTo: (namespace, pod) => findHibernations(parts.caches.hibernations, { namespace, pod }),
        findWarning: (namespace, pod) =>
          model.pods.named(namespace, pod)
            ? undefined
            : `there is no machine's pod "${pod}" in ${namespace} yet`,
      }),
    ],
  };
  return Object.fromEntries(
    Object.entries(handlers).map(([path, [name, decide]]) => [path, endpoint(name, decide, parts)]),
  );
}

interface IdentityRules {
  readonly writers: IdentityWriters;
  readonly sourceAccess: SourceAccess;
}

function createIdentityRules({ options: { client }, caches, model }: Parts): IdentityRules {
  const writers = new IdentityWriters(client);
  const namespaceExists = (name: string) => caches.namespaces.get({ name }) !== undefined;
  const sourceAccess = createSourceAccess({ client, writers, keepers: model.context, namespaceExists });
  return { writers, sourceAccess };
}

function createPodHandler(parts: Parts, { writers, sourceAccess }: IdentityRules): Decide {
  const { options, caches, model, reservations, metrics, events, log } = parts;
  const { rules, client } = options;
  const setPods = {
    setExists: (set: Parameters<typeof setExists>[0], call: Abortable) =>
      setExists(set, { cache: caches.sets, client }, call),
    keepers: model.context,
    writers,
  };
  const decideMachine =
    rules.mode === "gate"
      ? decideGate({ ...setPods, creators: rules.creators })
      : decideSticky({
          reservations,
          pending: model.pending,
          workloads: model.workloads,
          decideSetPod: decideSetPod(setPods),
          onFailure: rules.onFailure,
          granted: (machine, granted) => {
            metrics.reservations.inc({ pool: granted.entry.pool });
            announceGrant(machine, granted, events);
          },
        });
  return mutatePods({ decideMachine, sourceAccess, writers, keepOff: rules.keepOff, log });
}

/** On the owner of a pod that waits for its node, because the pod has no name yet. */
function announceGrant(machine: MachinePod, { entry, placement }: Granted, events: EventRecorder): void {
  if (placement.warning === undefined) return;
  const { namespace, name } = machine.request;
  const owner = machine.pod.metadata.ownerReferences?.find(({ controller }) => controller === true);
  const regarding = owner
    ? { apiVersion: owner.apiVersion, kind: owner.kind, namespace, name: owner.name, uid: owner.uid }
    : { apiVersion: "v1", kind: "Pod", namespace, name: machine.pod.metadata.name || name || entry.vmName };
  events.record(regarding, { type: "Warning", reason: "WaitsForNode", message: placement.warning });
}

/** Counts every result once. */
function endpoint(name: string, decide: Decide, { metrics }: Parts): AdmissionEndpoint {
  // One look-up instead of sorting and joining the labels on every request.
  const counters = new Map<string, { inc(): void }>();
  const counted = ({ verdict, result, reason }: AdmissionResult) => {
    const key = `${result} ${reason}`;
    const counter = counters.get(key) ?? metrics.admission.labels({ handler: name, result, reason });
    counters.set(key, counter);
    counter.inc();
    return verdict;
  };
  return {
    name,
    handler: (request, context) => {
      const result = decide(request, context);
      return result instanceof Promise ? result.then(counted) : counted(result);
    },
  };
}

const workloadTypes = { deployments, statefulsets: statefulSets, replicasets: replicaSets };

/** What the cache does not show may be too new for it: the API server is read. */
function findParent(
  { resource, namespace, name }: ParentKey,
  { model, options }: Parts,
  { signal }: Abortable,
): Parent | undefined | Promise<Parent | undefined> {
  const known = model.workloads.find(resource, namespace, name);
  if (known) return known;
  const found = options.client.get(workloadTypes[resource], { namespace, name }, { signal });
  return ignoreFault("notFound", found.then(readWorkloadFacts));
}

function findCollisions(claim: NameClaim, { caches, model }: Parts): readonly string[] {
  const sets = [...caches.sets.list()].map((set) => set.claim);
  const found = [...listCollisions(claim, sets)];
  const { reserved } = model;
  const prefix = claim.slotPrefix ?? "";
  for (const form of reserved.formsBelow(prefix))
    found.push(collisionText(`${prefix}…`, form.slice(form.indexOf(" ") + 1)));
  for (const name of claim.names)
    for (const { entry } of reserved.holding(name))
      found.push(collisionText(name, `${entry.owner.kind} ${entry.namespace}/${entry.owner.name}`));
  return found;
}

function findWarnings({ nodePool, nodeName }: SpecShape, { caches }: Parts): readonly string[] {
  const warnings: string[] = [];
  const pool = nodePool || "default";
  if (![...caches.nodes.list()].some((node) => node.pool === pool))
    warnings.push(`spec.nodePool: no node is in pool "${pool.slice(0, 63)}" now`);
  if (nodeName !== "" && !caches.nodes.get({ name: nodeName }))
    warnings.push(`spec.nodeName: there is no node "${nodeName.slice(0, 63)}" now`);
  return warnings;
}
