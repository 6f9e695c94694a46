/** Everything that a plan for one CocoonHibernation may look at. */
import type { CocoonHibernation } from "@cocoon/contract";
import type { TagAnswer } from "../cocoonset/world.ts";
import type { Machine } from "../machine.ts";

export interface HibernationWorld {
  readonly hibernation: CocoonHibernation;
  /** Undefined: there is no such pod, or it is being deleted. */
  readonly machine: Machine | undefined;
  /** Name of the set that owns the pod; its controller then writes the key. */
  readonly ownerSet: string;
  /** The set sleeps as a whole: that outranks a wish to wake one machine. */
  readonly setSuspended: boolean;
  /** What the registry says about the machine; undefined when it was not asked yet. */
  readonly tag: TagAnswer | undefined;
  readonly retryText: string;
  readonly now: Date;
}
