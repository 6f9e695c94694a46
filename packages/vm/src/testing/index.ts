/** The contract suite that every backend of `VmRuntime` passes. */
export { vmRuntimeContract } from "./contract-suite.ts";
export type { OpenHarness, RuntimeHarness } from "./harness.ts";
