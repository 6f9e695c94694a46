/**
 * Which node a pod is pinned to, and how.
 *
 *   the pod names a node               that one, untouched
 *   a new slot                         the least used node of the pool that can take the pod; none: the scheduler's choice
 *   a slot that ran before             its node again
 *     which can take the pod           as above
 *     whose Node is gone, or fenced    another one: its machine is dead
 *     which cannot, snapshot proven    another one that can: the machine starts from the registry
 *     which cannot, otherwise          its node nevertheless: the pod waits, the machine may still be there
 *
 * Where everything could be checked the pin is `spec.nodeName`; where the scheduler knows more (pod affinity, volumes,
 * …), or has to wait for the node, it is a required node affinity.
 */
import { addAmounts, findMisfit, type Misfit, type NodeLoad } from "@cocoon/kube/scheduling";
import type { PodIndex } from "../pods/pod-index.ts";
import type { NodeFacts } from "./node-facts.ts";
import type { PendingLoads } from "./pending-loads.ts";
import type { PodShape } from "./pod-shape.ts";

export type { PodShape } from "./pod-shape.ts";

export const pinModes = ["auto", "affinity"] as const;
export type PinMode = (typeof pinModes)[number];

export interface Placement {
  /** Empty: the scheduler chooses. */
  readonly node: string;
  readonly pin: "none" | "nodeName" | "affinity";
  /** For the user: why the pod may have to wait. */
  readonly warning?: string;
}

export interface PlaceRequest {
  readonly shape: PodShape;
  readonly pool: string;
  /** Where the machine ran before; empty for a new one. */
  readonly sticky: string;
  readonly vmName: string;
  /** Whether its snapshot is in the registry; undefined before the lookup. */
  readonly proof: boolean | undefined;
  /** What this claim requests of its node already is not counted against it. */
  readonly claim?: string;
}

export type Placed = { readonly kind: "placed"; readonly placement: Placement } | { readonly kind: "prove" };

export interface PlacementOptions {
  readonly nodes: { get(name: string): NodeFacts | undefined; inPool(pool: string): readonly NodeFacts[] };
  readonly pods: PodIndex;
  readonly pending: PendingLoads;
  readonly pinMode: PinMode;
}

export class PlacementRules {
  readonly #options: PlacementOptions;

  constructor(options: PlacementOptions) {
    this.#options = options;
  }

  place(request: PlaceRequest): Placed {
    const { shape, sticky, vmName, proof } = request;
    if (shape.nodeName !== "") return placed({ node: shape.nodeName, pin: "none" });
    if (sticky === "") return placed(this.#choose(request));
    const node = this.#options.nodes.get(sticky);
    if (!node || node.fenced) return placed(this.#choose(request));
    const problem = this.#findProblem(node, request);
    if (problem === undefined) return placed(this.#pin(sticky, shape));
    if (proof === undefined) return { kind: "prove" };
    const elsewhere = proof ? this.#choose(request) : undefined;
    if (elsewhere && elsewhere.node !== "") return placed(elsewhere);
    const warning = `machine ${vmName} stays on node ${sticky}, which ${problem}; the pod waits for it. Fence the node (taint node.kubernetes.io/out-of-service) or delete its Node object if it is lost`;
    return placed({ node: sticky, pin: "affinity", warning });
  }

  /** The pin of a placement that was decided before. */
  keep(node: string, shape: PodShape): Placement {
    if (node === "" || shape.nodeName !== "") return { node, pin: "none" };
    const facts = this.#options.nodes.get(node);
    return facts && this.#findProblem(facts, { shape }) === undefined
      ? this.#pin(node, shape)
      : { node, pin: "affinity" };
  }

  #choose(request: PlaceRequest): Placement {
    const { shape, pool, claim } = request;
    let best: { readonly node: NodeFacts; readonly pods: number } | undefined;
    for (const node of this.#options.nodes.inPool(pool)) {
      if (this.#findProblem(node, request) !== undefined) continue;
      const { pods } = this.#getLoad(node, claim);
      if (!best || pods < best.pods || (pods === best.pods && node.metadata.name < best.node.metadata.name))
        best = { node, pods };
    }
    return best ? this.#pin(best.node.metadata.name, shape) : { node: "", pin: "none" };
  }

  #pin(node: string, shape: PodShape): Placement {
    const direct = this.#options.pinMode === "auto" && shape.unchecked === undefined;
    return { node, pin: direct ? "nodeName" : "affinity" };
  }

  #findProblem(node: NodeFacts, { shape, claim }: Pick<PlaceRequest, "shape" | "claim">): string | undefined {
    if (node.fenced) return "is out of service";
    if (!node.ready) return "is not ready";
    const misfit = findMisfit(node.supply, shape, this.#getLoad(node, claim));
    return misfit && describeMisfit(misfit);
  }

  #getLoad({ metadata: { name } }: NodeFacts, claim?: string): NodeLoad {
    const now = this.#options.pods.getLoad(name);
    const soon = this.#options.pending.on(name, claim);
    if (soon.pods === 0) return now;
    return { pods: now.pods + soon.pods, amounts: addAmounts(now.amounts, soon.amounts) };
  }
}

/** Follows "the node …". */
function describeMisfit(misfit: Misfit): string {
  switch (misfit.kind) {
    case "unschedulable":
      return "is cordoned";
    case "taint":
      return `has taint ${misfit.taint.key}`;
    case "affinity":
      return "does not match the pod's node selector or affinity";
    case "port":
      return `has host port ${misfit.port.port} in use`;
    default:
      return `has not enough ${misfit.resource === "pods" ? "room for another pod" : misfit.resource}`;
  }
}

function placed(placement: Placement): Placed {
  return { kind: "placed", placement };
}
