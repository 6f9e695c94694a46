/**
 * Whose a snapshot is. VM names are not escaped: set `b-c` of namespace `a` and set `c` of namespace `a-b` have machines of the
 * same name, and so one repository. The manifest says which namespace pushed it.
 */
import type { SnapshotOrigin } from "./find.ts";

/** Snapshots of older writers name no namespace, and belong to the name. */
export function isOwnedBy(
  { namespace: owner }: Pick<SnapshotOrigin, "namespace">,
  namespace: string,
): boolean {
  return owner === "" || owner === namespace;
}
