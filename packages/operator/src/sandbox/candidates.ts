/** Members of a warm pool that a claim may take. One process hands them out: a member that was promised is not offered again. */
import { sandboxLabel, type SandboxWarmPool } from "@cocoon/contract/agent-sandbox";
import { isControlledBy } from "@cocoon/kube/controller";
import type { CustomObject } from "../kinds.ts";
import { isLiving, isReady } from "./plan-pool.ts";
import type { SandboxParts } from "./parts.ts";
import { readSandboxObject } from "./settle.ts";

export type Choice =
  | { readonly kind: "found"; readonly member: CustomObject }
  /** Members are on their way and have no address yet. */
  | { readonly kind: "starting" }
  | { readonly kind: "none" };

interface Request {
  readonly pool: SandboxWarmPool;
  readonly templateHash: string;
}

export class Candidates {
  readonly #parts: Pick<SandboxParts, "sandboxes" | "sandboxesByOwner">;
  /** By uid of the Sandbox: the claim that it was promised to. */
  readonly #promised = new Map<string, string>();

  constructor(parts: Pick<SandboxParts, "sandboxes" | "sandboxesByOwner">) {
    this.#parts = parts;
  }

  /** The member is promised to the claim until `release`. */
  choose(claimUid: string, request: Request): Choice {
    const members = this.#list(request).filter(
      ({ metadata }) => (this.#promised.get(metadata.uid ?? "") ?? claimUid) === claimUid,
    );
    const addressed = members.filter(hasAddress);
    const member = addressed.toSorted(comesFirst(addressed))[0];
    if (!member) return { kind: members.length > 0 ? "starting" : "none" };
    this.#promised.set(member.metadata.uid ?? "", claimUid);
    return { kind: "found", member };
  }

  release(claimUid: string): void {
    for (const [sandbox, claim] of this.#promised) if (claim === claimUid) this.#promised.delete(sandbox);
  }

  #list({ pool, templateHash }: Request): readonly CustomObject[] {
    const { sandboxes, sandboxesByOwner } = this.#parts;
    const owned = sandboxes.merge(sandboxesByOwner.get(pool.metadata.uid ?? ""), (each) =>
      isControlledBy(each, pool),
    );
    const mustMatch = pool.spec.updateStrategy?.type === "Recreate";
    return owned.filter(
      (member) =>
        isLiving(member) &&
        (!mustMatch || member.metadata.labels?.[sandboxLabel.templateHash] === templateHash),
    );
  }
}

function hasAddress(member: CustomObject): boolean {
  return (readSandboxObject(member).status?.podIPs ?? []).length > 0;
}

/** Ready ones, then from the node with most of them, then the oldest. */
function comesFirst(members: readonly CustomObject[]): (one: CustomObject, other: CustomObject) => number {
  const node = (member: CustomObject) => readSandboxObject(member).status?.nodeName ?? "";
  const counts = Map.groupBy(members, node);
  const rank = (member: CustomObject) => counts.get(node(member))?.length ?? 0;
  const created = ({ metadata }: CustomObject) => Date.parse(metadata.creationTimestamp ?? "") || 0;
  return (one, other) =>
    Number(isReady(other)) - Number(isReady(one)) || rank(other) - rank(one) || created(one) - created(other);
}
