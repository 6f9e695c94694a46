/** For tests of everything that talks to a registry. */
export {
  refuse,
  startMemoryRegistry,
  type Hook,
  type MemoryRegistry,
  type MemoryRegistryOptions,
  type SeenRequest,
  type StoredBody,
} from "./memory-registry.ts";
export { type MemoryAuth } from "./memory-auth.ts";
export { assertMachine, contentOfMachine, makeMachine, runMachine, testEnvelope } from "./machine.ts";
export { registrySuite, type SuiteRegistry } from "./registry-suite.ts";
