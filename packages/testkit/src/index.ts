/** testkit: what tests share. Only test files import it. */
export {
  freePort,
  ownControlPlane,
  sharedControlPlane,
  testBinaries,
  type ComponentName,
  type OwnControlPlane,
  type TestCluster,
  type TestNamespace,
} from "./cluster.ts";
export { eventually, type EventuallyOptions } from "./eventually.ts";
export { ensurePythonPackage } from "./python-package.ts";
export { killChild, runCommand, type CommandOptions, type CommandResult } from "./run-command.ts";
export { requireRoot } from "./require-root.ts";
export { temporaryDirectory, type TemporaryDirectory } from "./temporary-directory.ts";
export { type Tier, count, fullTierOnly, seededRandom, seedOfRun, testSeed, tier } from "./tier.ts";
