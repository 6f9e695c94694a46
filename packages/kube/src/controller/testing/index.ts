/** For tests of controllers: time that stands still, a source filled by hand, an API server in memory. */
export { kubeClientContract, type ContractStage } from "./client-contract.ts";
export { ManualClock } from "./manual-clock.ts";
export { MemoryServer, type MemoryCall } from "./memory-client.ts";
export { MemorySource } from "./memory-source.ts";
