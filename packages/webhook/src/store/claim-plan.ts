/**
 * Decides one round of claims against what is known now; nothing is written here. In order:
 *
 *   the same admission again           what it was granted; placed anew when the pod requests something else now
 *   the name has another holder        refused, naming the holder
 *   a slot whose pod is gone           taken over, lowest first: the re-created replica is its predecessor again
 *   the owner lacks pods, but those
 *   that hold its slots still go       refused until one is gone: two pods must not share a machine
 *   otherwise                          the smallest free number
 */
import { findVmNameProblem } from "@cocoon/contract";
import type { Fault } from "@cocoon/core";
import type { PlacementRules } from "../nodes/placement.ts";
import { getOccupancy } from "../pods/occupancy.ts";
import type { Again, ClaimRequest, Granted, Plan } from "./claim-request.ts";
import {
  collisionText,
  foreignPod,
  findNameHolder,
  findPrefixHolder,
  type NameKeepers,
} from "./collisions.ts";
import { formatSlotPrefix, formatSlotVmName, type Entry } from "./entry.ts";
import type { Held } from "./reservation-index.ts";
import { OwnerSlots } from "./owner-slots.ts";

export interface PlanContext extends NameKeepers {
  readonly placement: PlacementRules;
  readonly now: () => Date;
}

export class ClaimRound {
  readonly #context: PlanContext;
  readonly #views = new Map<string, OwnerSlots>();

  constructor(context: PlanContext) {
    this.#context = context;
  }

  plan(request: ClaimRequest): Plan {
    const before = this.#context.reserved.heldBy(request.claim);
    if (before && before.entry.podUid === "") return this.#again(request, before);
    return request.ownerChain.form === "slot" ? this.#planSlot(request) : this.#planPod(request);
  }

  #again(request: ClaimRequest, held: Held): Plan {
    const { entry } = held;
    const { again, shape } = request;
    if (again?.changed) return this.#placeAgain(request, again, held);
    const { node } = entry;
    if (again)
      return {
        kind: "held",
        granted: { entry, placement: { node, pin: again.pin }, from: again.from },
        held,
      };
    const placement = this.#context.placement.keep(node, shape);
    const from = entry.lastGone === "" ? "" : node;
    return { kind: "held", granted: { entry, placement, from }, held };
  }

  /** The same reservation, placed as if the pod had come the way it is now. */
  #placeAgain({ shape, pool, learned, claim }: ClaimRequest, { from }: Again, held: Held): Plan {
    const { placement: rules, now } = this.#context;
    const { vmName } = held.entry;
    const proof = learned.proofs.get(vmName);
    const placed = rules.place({ shape, pool, sticky: from, vmName, proof, claim });
    if (placed.kind === "prove") return { kind: "prove", vmName };
    const { placement } = placed;
    if (placement.node === held.entry.node)
      return { kind: "held", granted: { entry: held.entry, placement, from }, held };
    const entry: Entry = { ...held.entry, node: placement.node, updatedAt: now().toISOString() };
    return { kind: "put", granted: { entry, placement, from }, replaces: held };
  }

  #planPod(request: ClaimRequest): Plan {
    const { ownerChain, podName } = request;
    const { reserved, pods } = this.#context;
    const vmName = formatSlotVmName(ownerChain, podName);
    const problem = findVmNameProblem(vmName);
    if (problem !== undefined) return refuse("invalid", problem);
    const holder = findNameHolder(ownerChain, vmName, this.#context);
    if (holder !== undefined) return refuse("conflict", collisionText(vmName, holder));
    if (reserved.inFlight(vmName))
      return refuse("conflict", `machine name "${vmName}" is being reserved by another request; try again`);
    const [held] = reserved.holding(vmName);
    const otherUid = held && isOtherObject(held, request) && getOccupancy(held, pods).kind !== "gone";
    if (otherUid)
      return refuse("conflict", collisionText(vmName, `an earlier ${held.entry.owner.kind} of that name`));
    return this.#grant(request, { slot: request.ordinal, vmName, held });
  }

  #planSlot(request: ClaimRequest): Plan {
    const { ownerChain, podName } = request;
    const holder = findPrefixHolder(ownerChain, this.#context);
    if (holder !== undefined)
      return refuse("conflict", collisionText(`${formatSlotPrefix(ownerChain)}…`, holder));
    const view = this.#getView(request);
    const same = podName === "" ? undefined : view.findSlot(podName);
    if (same) return this.#takeOver(request, same);
    const vacant = view.takeVacant();
    if (vacant) return this.#undoOnDetour(this.#takeOver(request, vacant), () => view.giveBack(vacant));
    const wait = this.#mustWait(request, view);
    if (wait) return wait;
    return this.#newSlot(request, view);
  }

  #newSlot(request: ClaimRequest, view: OwnerSlots): Plan {
    const slot = view.takeLowest();
    if (slot === undefined) return refuse("outOfSpace", "all slots of this owner are taken");
    const vmName = formatSlotVmName(request.ownerChain, slot);
    const problem = findVmNameProblem(vmName);
    if (problem !== undefined) return refuse("invalid", problem);
    const plan = this.#grant(request, { slot, vmName, held: undefined });
    return this.#undoOnDetour(plan, () => view.giveBackNumber(slot));
  }

  #undoOnDetour(plan: Plan, undo: () => void): Plan {
    if (plan.kind !== "put") undo();
    return plan;
  }

  #takeOver(request: ClaimRequest, held: Held): Plan {
    const { slot, vmName } = held.entry;
    return this.#grant(request, { slot, vmName, held });
  }

  /** Only while the owner's pods are fewer than it wants and the missing ones are still on their way out. */
  #mustWait({ desired, learned }: ClaimRequest, view: OwnerSlots): Plan | undefined {
    const wanted = desired();
    if (wanted === undefined) return undefined;
    if (view.active >= wanted) return learned.look ? undefined : { kind: "look" };
    const [leaving] = view.terminating;
    if (!leaving || view.heldSlots < wanted) return undefined;
    const { namespace, name } = leaving.metadata;
    const where = leaving.nodeName === "" ? "" : ` on node ${leaving.nodeName}`;
    return refuse(
      "conflict",
      `the predecessor of this pod, ${namespace}/${name}, is still shutting down machine ${leaving.vmName}${where}; it is admitted when that pod is gone`,
    );
  }

  #getView({ ownerChain, pool, learned }: ClaimRequest): OwnerSlots {
    const { reserved, pods } = this.#context;
    const key = `${formatSlotPrefix(ownerChain)} ${ownerChain.owner.kind} ${pool} ${learned.look?.version ?? ""}`;
    const known = this.#views.get(key);
    if (known) return known;
    const view = new OwnerSlots({ reserved, pods, ownerChain, pool, look: learned.look });
    this.#views.set(key, view);
    return view;
  }

  #grant(request: ClaimRequest, { slot, vmName, held }: Choice): Plan {
    const foreign = held ? undefined : foreignPod(request.ownerChain, vmName, this.#context);
    if (foreign !== undefined) return refuse("conflict", collisionText(vmName, foreign));
    const { placement: rules, now } = this.#context;
    const proof = request.learned.proofs.get(vmName);
    const sticky = held?.entry.node ?? "";
    const placed = rules.place({ shape: request.shape, pool: request.pool, sticky, vmName, proof });
    if (placed.kind === "prove") return { kind: "prove", vmName };
    const { ownerChain, podName, claim, pool } = request;
    const entry: Entry = {
      pool,
      namespace: ownerChain.namespace,
      deployment: ownerChain.form === "slot" ? ownerChain.owner.name : "",
      slot,
      vmName,
      pod: podName,
      node: placed.placement.node,
      updatedAt: now().toISOString(),
      owner: ownerChain.owner,
      claim,
      podUid: "",
      goneSince: "",
      lastGone: this.#findLastGone(held, request),
    };
    const granted: Granted = { entry, placement: placed.placement, from: sticky };
    return { kind: "put", granted, replaces: held };
  }

  /** Since when the predecessor is gone; one that never had a pod leaves what it found. */
  #findLastGone(held: Held | undefined, { learned }: ClaimRequest): string {
    if (!held) return "";
    const wasGone = getOccupancy(held, this.#context.pods, learned.look).kind === "gone";
    if (!wasGone) return held.entry.lastGone;
    return held.entry.goneSince || this.#context.now().toISOString();
  }
}

interface Choice {
  readonly slot: number;
  readonly vmName: string;
  readonly held: Held | undefined;
}

function isOtherObject({ entry }: Held, { ownerChain }: ClaimRequest): boolean {
  const [one, other] = [entry.owner.uid, ownerChain.owner.uid];
  return one !== "" && other !== "" && one !== other;
}

function refuse(code: Fault["code"], message: string): Plan {
  return { kind: "refuse", code, message };
}
