/** Everything that a plan for one set may look at. Filled by `observe`; plain data, so that tests write it by hand. */
import type { CocoonHibernation, CocoonSet } from "@cocoon/contract";
import type { Machine } from "../pod-machine.ts";
import type { Members } from "./members.ts";

/** How often the snapshots of a set with `spec.retention` are looked through. */
export const retentionPeriodMs = 60 * 60_000;

/** What the registry says about tag `hibernate` of a machine. "Could not ask" is an answer of its own. */
export type TagAnswer =
  | { readonly kind: "there"; readonly digest: string }
  | { readonly kind: "absent" }
  | { readonly kind: "unknown"; readonly message: string };

export interface NodeFacts {
  readonly ready: boolean;
  readonly schedulable: boolean;
  readonly pool: string;
  readonly cpuClass: string;
  /** What the machine's requests lack there, in words; "" when it fits. */
  readonly lacks: (machine: Machine) => string;
}

/** A node that holds a VM, whether its pod exists or not. */
export interface Holder {
  readonly node: string;
  /** Ready, in service, and takes pods. */
  readonly usable: boolean;
}

export interface ObservedSet {
  readonly set: CocoonSet;
  readonly members: Members;
  /** Every pod that this set owns, also those that are being deleted. */
  readonly machines: readonly Machine[];
  readonly hibernations: ReadonlyMap<string, CocoonHibernation>;
  /** Pod names that this set wants and cannot have, with the reason. */
  readonly taken: ReadonlyMap<string, string>;
  /** Another set or pod, by uid, has a machine of that name, or can have one at any time. */
  readonly isClaimedElsewhere: (vmName: string) => boolean;
  readonly node: (name: string) => NodeFacts | undefined;
  /** By what the nodes have published last. */
  readonly findHolder: (vmName: string) => Holder | undefined;
  /** Answers of the registry, by machine name; what is not in it was not lookups yet. */
  readonly tags: ReadonlyMap<string, TagAnswer>;
  /** Why `spec.agent.from` may not be used; "" when it may. */
  readonly sourceProblem: string;
  /** Snapshots have not been looked through for a while. */
  readonly retentionDue: boolean;
  /** The set is kept for an object of the older API. */
  readonly legacyKeys: boolean;
  readonly now: Date;
}

/** What the last status told about a machine: the memory for machines whose pods are gone. */
export interface Remembered {
  readonly vmName: string;
  readonly asleep: boolean;
  readonly awake: boolean;
  /** Was to wake from its snapshot. */
  readonly waking: boolean;
  readonly snapshotDigest: string;
  readonly node: string;
}

/** A wake that failed is still to be restored: the status lists the digest until the machine was ready. */
const restoringStates: ReadonlySet<string> = new Set(["creating", "failed"]);

export function rememberedMachines({ status }: CocoonSet): ReadonlyMap<string, Remembered> {
  const entries = [...(status?.agents ?? []), ...(status?.toolboxes ?? [])];
  return new Map(
    entries.flatMap(({ vmName, lifecycleState, snapshotDigest = "", nodeName = "" }) =>
      vmName === undefined
        ? []
        : [
            [
              vmName,
              {
                vmName,
                asleep: lifecycleState === "hibernated",
                awake: lifecycleState === "ready",
                waking: restoringStates.has(lifecycleState ?? "") && snapshotDigest !== "",
                snapshotDigest,
                node: nodeName,
              },
            ] as const,
          ],
    ),
  );
}
