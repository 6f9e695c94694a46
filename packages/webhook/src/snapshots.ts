/** What the webhook needs to know of the registry. Apart from the code that asks it, which few installations load. */
import type { RelativeReference } from "@cocoon/contract";
import type { Abortable } from "@cocoon/core";

export interface Snapshots {
  /** Whether the machine's snapshot is there for sure. A registry that does not answer proves nothing. */
  isAsleep(vmName: string, options: Abortable): Promise<boolean>;
  /**
   * Gives the snapshot of a slot that is released another tag, from which it can be restored: a later machine of that
   * name starts fresh. Throws when that is not certain; then the slot must not be released.
   */
  setAside(vmName: string, options: Abortable): Promise<void>;
  /** Whether an image is not there for sure; missing where nobody can be asked. */
  readonly isAbsent?: (image: RelativeReference, options: Abortable) => Promise<boolean>;
}

/** Where no registry is known nothing is proven, and there is nothing to put aside. */
export const noSnapshots: Snapshots = {
  isAsleep: () => Promise.resolve(false),
  setAside: () => Promise.resolve(),
};
