/** What the webhook needs of the registry. Apart from the code that calls it, which few installations load. */
import type { RelativeReference } from "@cocoon/contract";
import type { Abortable } from "@cocoon/core";

/** The name alone can be that of another namespace's machine. */
export interface OwnMachine {
  readonly vmName: string;
  readonly namespace: string;
}

export interface Snapshots {
  /** Whether the machine's snapshot is there for certain. A registry that does not answer proves nothing. */
  isHibernated(vmName: string, options: Abortable): Promise<boolean>;
  /**
   * Retags the snapshot of a slot that is released: kept, but not restored by itself, so that a later machine of that
   * name boots fresh. Throws when that is not verified; then the slot must not be released.
   */
  release(machine: OwnMachine, options: Abortable): Promise<void>;
  /** Whether the registry answered that it does not have an image; missing where no registry is configured. */
  readonly isAbsent?: (image: RelativeReference, options: Abortable) => Promise<boolean>;
}

/** Without a registry nothing is proven, and there is nothing to release. */
export const noSnapshots: Snapshots = {
  isHibernated: () => Promise.resolve(false),
  release: () => Promise.resolve(),
};
