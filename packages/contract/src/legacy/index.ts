/**
 * The older API, `cocoon.cis/v1alpha1`: its schemas and the conversion to and from the current kinds. Used by the
 * operator's bridge and the migration command; everything here is pure.
 */
export {
  legacySetPhases,
  readLegacyCocoonSet,
  type LegacyCocoonSet,
  type LegacyCocoonSetSpec,
  type LegacyCocoonSetStatus,
  type LegacySetPhase,
} from "./cocoonset.ts";
export {
  fromLegacyCocoonSet,
  toLegacyCocoonSetSpec,
  toLegacyCocoonSetStatus,
  type ConvertedSet,
  type SetConversion,
  type StaticAddress,
} from "./convert-cocoonset.ts";
export {
  fromLegacyHibernation,
  fromLegacyHibernationStatus,
  toLegacyHibernationSpec,
  toLegacyHibernationStatus,
  type ConvertedHibernation,
} from "./convert-hibernation.ts";
export {
  legacyActions,
  readLegacyHibernation,
  type LegacyAction,
  type LegacyHibernation,
  type LegacyHibernationSpec,
  type LegacyHibernationStatus,
} from "./hibernation.ts";
export {
  forgetSnapshotPatch,
  readSnapshotLedger,
  recordSnapshotPatch,
  snapshotLedgerName,
  snapshotReference,
  type LedgerPatch,
} from "./snapshot-ledger.ts";
