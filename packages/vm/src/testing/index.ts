/** The contract suite that every backend of `VmRuntime` passes. */
export { vmRuntimeContract } from "./contract-suite.ts";
export type { OpenHarness, RuntimeHarness } from "./harness.ts";
export { FakeHost, type FakeHostOptions, type FakeVm } from "./fake/fake-host.ts";
export { FakeRuntime } from "./fake/fake-runtime.ts";
