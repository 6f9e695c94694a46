import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { Fault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import { buildPluginInput, listConflists, loadConflist, parseConflist } from "./conflist.ts";

const list = (name: string, more: object = {}) =>
  JSON.stringify({ cniVersion: "1.0.0", name, plugins: [{ type: "bridge" }], ...more });

test("the first list by file name is the default, any can be named, and a damaged file is not in the way", async () => {
  await using directory = await temporaryDirectory();
  await writeFile(join(directory.path, "20-second.conflist"), list("second"));
  await writeFile(join(directory.path, "10-first.conf"), JSON.stringify({ name: "first", type: "ptp" }));
  await writeFile(join(directory.path, "05-damaged.conflist"), "{");
  await writeFile(join(directory.path, "00-notes.txt"), list("notes"));
  assert.deepEqual(await listConflists(directory.path), ["first", "second"]);
  const first = await loadConflist(directory.path, undefined);
  assert.deepEqual([first.name, first.cniVersion, first.plugins], ["first", "0.3.1", [{ type: "ptp" }]]);
  assert.equal((await loadConflist(directory.path, "second")).name, "second");
});

test("what is missing or wrong is said with the file or the directory", async () => {
  await using directory = await temporaryDirectory();
  await assert.rejects(loadConflist(directory.path, undefined), /has no CNI network configuration/);
  await assert.rejects(
    loadConflist(join(directory.path, "nowhere"), undefined),
    /has no CNI network configuration/,
  );
  await writeFile(join(directory.path, "a.conflist"), list("one"));
  await assert.rejects(loadConflist(directory.path, "two"), /"two" is not in .*there are: one/);
  await writeFile(join(directory.path, "a.conflist"), list("one", { cniVersion: "0.2.0" }));
  await assert.rejects(
    loadConflist(directory.path, "one"),
    /a\.conflist: cniVersion 0\.2\.0 is not supported/,
  );
  assert.throws(
    () => parseConflist(list("one", { plugins: [{ type: "../evil" }] }), "x"),
    /x is no CNI .*plugins\.0\.type/,
  );
});

test("the newest version that both sides know is used", () => {
  const versions = ["0.4.0", "1.0.0", "1.1.0", "2.0.0"];
  assert.equal(
    parseConflist(list("n", { cniVersion: "0.4.0", cniVersions: versions }), "x").cniVersion,
    "1.1.0",
  );
});

test("a plugin gets its own settings, the list's name and version, and only the runtime settings that it asks for", () => {
  const parsed = parseConflist(
    list("n", {
      plugins: [{ type: "portmap", snat: true, capabilities: { portMappings: true, ips: false } }],
    }),
    "x",
  );
  const [plugin] = parsed.plugins;
  assert.ok(plugin);
  const runtimeConfig = { portMappings: [{ hostPort: 1 }], bandwidth: {}, ips: [] };
  assert.deepEqual(buildPluginInput(parsed, plugin, { runtimeConfig, prevResult: { ips: [] } }), {
    type: "portmap",
    snat: true,
    cniVersion: "1.0.0",
    name: "n",
    runtimeConfig: { portMappings: [{ hostPort: 1 }] },
    prevResult: { ips: [] },
  });
});

test("any text is a list or a fault, never another error", () => {
  const anything = fc.oneof(
    fc.string(),
    fc.json(),
    fc
      .record({ cniVersion: fc.string(), name: fc.string(), plugins: fc.array(fc.object()) })
      .map((each) => JSON.stringify(each)),
  );
  fc.assert(
    fc.property(anything, (text) => {
      try {
        assert.ok(parseConflist(text, "x").plugins.length > 0);
      } catch (error) {
        assert.ok(error instanceof Fault, String(error));
      }
    }),
  );
});
