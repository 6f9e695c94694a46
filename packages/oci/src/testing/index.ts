/** For tests of everything that talks to a registry. */
export {
  refuse,
  startFakeRegistry,
  type Hook,
  type FakeRegistry,
  type MemoryRegistryOptions,
  type SeenRequest,
  type StoredBody,
} from "./fake-registry.ts";
export { type FakeAuth } from "./fake-auth.ts";
export { assertMachine, readMachine, makeMachine, runMachine, testEnvelope } from "./machine.ts";
export { inPieces, writeTestTar, type TestEntry } from "./tar-writer.ts";
export { registrySuite, type SuiteRegistry } from "./registry-suite.ts";
export { startSlowLink, type LinkOptions, type SlowLink } from "./slow-link.ts";
