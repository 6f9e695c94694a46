import assert from "node:assert/strict";

/** Fails the test when it does not run as root: a skip would hide that nothing was tested. */
export function requireRoot(purpose: string): void {
  assert.equal(process.getuid?.(), 0, `this test needs root to ${purpose}; run the tests as root`);
}
