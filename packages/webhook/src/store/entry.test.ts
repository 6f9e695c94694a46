import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { formatEntryKey, numberedPrefix, tryReadEntry, writeEntry, type Entry } from "./entry.ts";

const name = fc.stringMatching(/^[a-z]([-a-z0-9]{0,20}[a-z0-9])?$/);
const optional = fc.oneof(fc.constant(""), name);

const plain = { noNullPrototype: true };
const entries: fc.Arbitrary<Entry> = fc.record(
  {
    pool: name,
    namespace: name,
    deployment: optional,
    slot: fc.nat(),
    vmName: name,
    pod: optional,
    node: optional,
    updatedAt: fc.constant("2026-04-11T12:34:56.123Z"),
    owner: fc.record({ kind: fc.constantFrom("Deployment", "Job", "Pod"), name, uid: optional }, plain),
    claim: optional,
    podUid: optional,
    goneSince: optional,
    lastGone: optional,
  },
  plain,
);

test("an entry is read as it was written", () => {
  fc.assert(
    fc.property(entries, (entry) => assert.deepEqual(tryReadEntry(writeEntry(entry)), entry)),
    { seed: 1 },
  );
});

test("the documented fields come first, in their order, none left out when empty", () => {
  const text = writeEntry({
    pool: "default",
    namespace: "ns",
    deployment: "",
    slot: 0,
    vmName: "vk-ns-demo",
    pod: "demo",
    node: "",
    updatedAt: "2026-04-11T12:34:56.123Z",
    owner: { kind: "Pod", name: "demo", uid: "" },
    claim: "",
    podUid: "",
    goneSince: "",
    lastGone: "",
  });
  assert.equal(
    text,
    '{"pool":"default","namespace":"ns","deployment":"","slot":0,"vmName":"vk-ns-demo","pod":"demo","node":"","updatedAt":"2026-04-11T12:34:56.123Z","ownerKind":"Pod","ownerName":"demo"}',
  );
});

test("entries of other implementations are understood", () => {
  const older =
    '{"pool":"default","namespace":"ns","deployment":"demo","slot":0,"vmName":"vk-ns-demo-0","pod":"demo-0","node":"node-a","updatedAt":"2026-04-11T12:34:56.123456789Z"}';
  const entry = tryReadEntry(older);
  assert.deepEqual(entry?.owner, { kind: "Deployment", name: "demo", uid: "" });
  assert.equal(entry && formatEntryKey(entry), "ns.demo.0");
  const bare = tryReadEntry('{"namespace":"ns","deployment":"","slot":0,"vmName":"vk-ns-x","pod":"x"}');
  assert.equal(bare && formatEntryKey(bare), "ns._pod.x");
  for (const junk of ["", "{", "null", "[]", '{"slot":-1}', '{"namespace":"ns","slot":0}'])
    assert.equal(tryReadEntry(junk), undefined);
});

test("whose slot a name would be", () => {
  assert.equal(numberedPrefix("vk-a-b-7"), "vk-a-b-");
  assert.equal(numberedPrefix("vk-a-b-07"), undefined);
  assert.equal(numberedPrefix("vk-a-b"), undefined);
});
