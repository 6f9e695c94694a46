import assert from "node:assert/strict";
import { test } from "node:test";
import { wantsScreen } from "./screen.ts";

test("a machine has a screen when it is reached by VNC, and Windows unless it is reached in another way", () => {
  for (const [os, connType, expected] of [
    ["linux", "", false],
    ["linux", "ssh", false],
    ["linux", "vnc", true],
    ["", "vnc", true],
    ["windows", "", true],
    ["Windows", "", true],
    ["windows", "vnc", true],
    ["windows", "rdp", false],
    ["android", "adb", false],
  ] as const)
    assert.equal(wantsScreen({ os, connType }), expected, `${os} ${connType}`);
});
