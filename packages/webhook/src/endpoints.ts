/** The paths of the webhook and who answers on them. */
import { collisionsWith, type NameClaim } from "@cocoon/contract";
import { isFault, type Abortable } from "@cocoon/core";
import { deployments, replicaSets, statefulSets } from "@cocoon/kube";
import type { AdmissionEndpoint, AdmissionHandler } from "@cocoon/kube/admission";
import { hibernationsOf } from "./hibernations.ts";
import { announceGrant } from "./handlers/announce.ts";
import type { SpecShape } from "./handlers/cocoonset-shape.ts";
import { judgeGate, judgeSetPod } from "./handlers/gate.ts";
import type { Judgement } from "./handlers/judgement.ts";
import { mutatePods } from "./handlers/mutate.ts";
import { judgeSticky } from "./handlers/sticky.ts";
import { validateSets } from "./handlers/validate-cocoonset.ts";
import { validateHibernations } from "./handlers/validate-hibernation.ts";
import { validateWorkloads, type Parent, type ParentKey } from "./handlers/validate-workload.ts";
import { setExists } from "./sets.ts";
import type { Parts } from "./start.ts";
import { collisionText } from "./store/collisions.ts";
import { readWorkloadFacts } from "./workloads.ts";

type Judge = (...args: Parameters<AdmissionHandler>) => Judgement | Promise<Judgement>;

export function endpointsOf(parts: Parts): Record<string, AdmissionEndpoint> {
  const { options, model } = parts;
  const judges: Readonly<Record<string, readonly [name: string, judge: Judge]>> = {
    "/mutate": ["mutate", podJudge(parts)],
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
        collisions: (claim) => collisionsOf(claim, parts),
        doubtsAbout: (spec) => doubtsAbout(spec, parts),
        isAbsent: options.snapshots.isAbsent,
      }),
    ],
    "/validate-cocoonhibernation": [
      "validate_cocoonhibernation",
      validateHibernations({
        referringTo: (namespace, pod) => hibernationsOf(parts.caches.hibernations, { namespace, pod }),
        doubtAbout: (namespace, pod) =>
          model.pods.named(namespace, pod)
            ? undefined
            : `there is no machine's pod "${pod}" in ${namespace} yet`,
      }),
    ],
  };
  return Object.fromEntries(
    Object.entries(judges).map(([path, [name, judge]]) => [path, endpoint(name, judge, parts)]),
  );
}

function podJudge({ options, caches, model, reservations, metrics, events, log }: Parts): Judge {
  const { rules, client } = options;
  const setPods = {
    setExists: (set: Parameters<typeof setExists>[0], call: Abortable) =>
      setExists(set, { cache: caches.sets, client }, call),
    keepers: model.context,
  };
  const judgeMachine =
    rules.mode === "gate"
      ? judgeGate({ ...setPods, creators: rules.creators })
      : judgeSticky({
          reservations,
          pending: model.pending,
          workloads: model.workloads,
          judgeSetPod: judgeSetPod(setPods),
          onFailure: rules.onFailure,
          granted: (machine, granted) => {
            metrics.reservations.inc({ pool: granted.entry.pool });
            announceGrant(machine, granted, events);
          },
        });
  return mutatePods({ judgeMachine, keepOff: rules.keepOff, log });
}

/** Counts every judgement once. */
function endpoint(name: string, judge: Judge, { metrics }: Parts): AdmissionEndpoint {
  // One look-up instead of sorting and joining the labels on every request.
  const counters = new Map<string, { inc(): void }>();
  const counted = ({ verdict, result, reason }: Judgement) => {
    const key = `${result} ${reason}`;
    const counter = counters.get(key) ?? metrics.admission.labels({ handler: name, result, reason });
    counters.set(key, counter);
    counter.inc();
    return verdict;
  };
  return {
    name,
    handler: (request, context) => {
      const judgement = judge(request, context);
      return judgement instanceof Promise ? judgement.then(counted) : counted(judgement);
    },
  };
}

const workloadTypes = { deployments, statefulsets: statefulSets, replicasets: replicaSets };

/** What the cache does not show may be too new for it, so it is asked for. */
function findParent(
  { resource, namespace, name }: ParentKey,
  { model, options }: Parts,
  { signal }: Abortable,
): Parent | undefined | Promise<Parent | undefined> {
  const known = model.workloads.find(resource, namespace, name);
  if (known) return known;
  return options.client.get(workloadTypes[resource], { namespace, name }, { signal }).then(
    (object) => readWorkloadFacts(object),
    (error: unknown) => {
      if (isFault(error, "notFound")) return undefined;
      throw error;
    },
  );
}

function collisionsOf(claim: NameClaim, { caches, model }: Parts): readonly string[] {
  const sets = [...caches.sets.list()].map((set) => set.claim);
  const found = [...collisionsWith(claim, sets)];
  const { ledger } = model;
  const prefix = claim.slotPrefix ?? "";
  for (const form of ledger.formsBelow(prefix))
    found.push(collisionText(`${prefix}…`, form.slice(form.indexOf(" ") + 1)));
  for (const name of claim.names)
    for (const { entry } of ledger.holding(name))
      found.push(collisionText(name, `${entry.owner.kind} ${entry.namespace}/${entry.owner.name}`));
  return found;
}

function doubtsAbout({ nodePool, nodeName }: SpecShape, { caches }: Parts): readonly string[] {
  const doubts: string[] = [];
  const pool = nodePool || "default";
  if (![...caches.nodes.list()].some((node) => node.pool === pool))
    doubts.push(`spec.nodePool: no node is in pool "${pool.slice(0, 63)}" now`);
  if (nodeName !== "" && !caches.nodes.get({ name: nodeName }))
    doubts.push(`spec.nodeName: there is no node "${nodeName.slice(0, 63)}" now`);
  return doubts;
}
