import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "@cocoon/core";
import { vkProgram, type VkConfig } from "./config.ts";
import { warnIgnoredOptions } from "./notices.ts";

function readVkConfig(env: Readonly<Record<string, string>>): VkConfig {
  const read = readConfig(vkProgram, { argv: [], env });
  assert.ok(read.kind === "config");
  return read.config;
}

function collectWarnings(env: Readonly<Record<string, string>>): unknown[] {
  const said: unknown[] = [];
  warnIgnoredOptions(readVkConfig(env), {
    info: (fields: object, text: string) => void said.push([fields, text]),
  } as never);
  return said;
}

test("variables of other systems are accepted, named once, and their values kept", () => {
  const env = {
    VK_COCOON_NET_CONTROL_SOCKET: "/run/x",
    COCOON_MACOS_VNC_PASSWORD: "hush",
    VK_STAGING_DIR: "/a",
    VK_PEER_ADDR: ":1",
    VK_COCOON_SNAPSHOT_DIR: "/b",
  };
  const said = collectWarnings(env);
  assert.deepEqual(
    said,
    Object.keys(env).map((variable) => [{ variable }, "set, but not used here"]),
  );
  assert.doesNotMatch(JSON.stringify(said), /hush/);
  assert.deepEqual(collectWarnings({}), []);
  assert.deepEqual(collectWarnings({ VK_STAGING_DIR: "" }), [], "empty is not set");
});

test("how memory comes back is one of three, by the environment", () => {
  assert.equal(readVkConfig({}).restoreMode, "mmap");
  for (const mode of ["copy", "ondemand", "mmap"])
    assert.equal(readVkConfig({ VK_RESTORE_MODE: mode }).restoreMode, mode);
  assert.throws(() => readVkConfig({ VK_RESTORE_MODE: "later" }), /VK_RESTORE_MODE|restore-mode/);
});
