/** For tests of everything that handles machines. */
export { putTestSnapshot, type TestSnapshot } from "./put-snapshot.ts";
export { machineSnapshotsSuite, type SuiteRegistry } from "./snapshots-suite.ts";
