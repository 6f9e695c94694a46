/** The older API, `cocoon.cis/v1alpha1`: its schemas and the conversion to the current kinds, for the operator's bridge. */
export { readLegacyCocoonSet, type LegacyCocoonSet, type LegacyCocoonSetStatus } from "./cocoonset.ts";
export {
  fromLegacyCocoonSet,
  toLegacyCocoonSetStatus,
  type SetConversion,
  type StaticAddress,
} from "./convert-cocoonset.ts";
export { fromLegacyHibernation, toLegacyHibernationStatus } from "./convert-hibernation.ts";
export {
  readLegacyHibernation,
  type LegacyHibernation,
  type LegacyHibernationStatus,
} from "./hibernation.ts";
export { readSnapshotReferences, snapshotConfigMapName, snapshotReference } from "./snapshot-references.ts";
