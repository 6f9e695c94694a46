/**
 * What ties a machine's pod to its node, written by the machine webhook: a profile's patch replaces whole lists, and may
 * come after that webhook. The ties are kept: without them a machine is evicted, or starts where it is not.
 */
import { jsonEqual } from "@cocoon/core/json-patch";
import { child, isRecord, own, type Json } from "../json.ts";

interface Ties {
  readonly patience: readonly unknown[];
  readonly node: unknown;
}

const awayTaints: ReadonlySet<unknown> = new Set([
  "node.kubernetes.io/not-ready",
  "node.kubernetes.io/unreachable",
]);

export function machineTies(pod: Json): Ties {
  return { patience: tolerationsOf(pod).filter(isEndless), node: requiredNode(pod) };
}

/** Puts back what is missing, in place. */
export function keepTies(pod: Json, { patience, node }: Ties): void {
  const now = tolerationsOf(pod);
  const missing = patience.filter((wanted) => !now.some((each) => jsonEqual(each, wanted)));
  if (missing.length > 0) child(pod, "spec")["tolerations"] = [...now, ...missing];
  if (node === undefined) return;
  for (const term of termsOf(pod)) {
    const fields = listOf(own(term, "matchFields"));
    if (!fields.some((each) => jsonEqual(each, node))) term["matchFields"] = [...fields, node];
  }
}

function isEndless(toleration: unknown): boolean {
  return (
    isRecord(toleration) &&
    awayTaints.has(own(toleration, "key")) &&
    own(toleration, "effect") === "NoExecute" &&
    own(toleration, "tolerationSeconds") === undefined
  );
}

/** The requirement for one node that all alternatives share. */
function requiredNode(pod: Json): unknown {
  const [first, ...others] = termsOf(pod);
  const isNode = (each: unknown) => isRecord(each) && own(each, "key") === "metadata.name";
  const node = first ? listOf(own(first, "matchFields")).findLast(isNode) : undefined;
  const isShared = others.every((term) =>
    listOf(own(term, "matchFields")).some((each) => jsonEqual(each, node)),
  );
  return isShared ? node : undefined;
}

function termsOf(pod: Json): Json[] {
  const path = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
  let at: unknown = pod;
  for (const key of path) at = isRecord(at) ? own(at, key) : undefined;
  return listOf(isRecord(at) ? own(at, "nodeSelectorTerms") : undefined).filter(isRecord);
}

function tolerationsOf(pod: Json): unknown[] {
  const spec = own(pod, "spec");
  return listOf(isRecord(spec) ? own(spec, "tolerations") : undefined);
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
