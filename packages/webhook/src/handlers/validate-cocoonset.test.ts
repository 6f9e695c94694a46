import assert from "node:assert/strict";
import { test } from "node:test";
import type { AdmissionContext, AdmissionRequest } from "@cocoon/kube/admission";
import type { AdmissionResult } from "./admission-result.ts";
import { validateSets } from "./validate-cocoonset.ts";

const context = { signal: new AbortController().signal } as AdmissionContext;
const decide = validateSets({
  collisions: () => [],
  findWarnings: () => [],
  isAbsent: undefined,
  sourceAccess: () => Promise.resolve([]),
});
const agent = { image: "team/base:1" };

function update(before: object, after: object): string {
  const request = {
    operation: "UPDATE",
    namespace: "ns",
    name: "demo",
    object: { metadata: { name: "demo" }, spec: after },
    oldObject: { metadata: { name: "demo" }, spec: before },
  } as unknown as AdmissionRequest;
  const { verdict, result, reason } = decide(request, context) as AdmissionResult;
  return verdict.kind === "deny" ? verdict.message : `${result} ${reason}`.trim();
}

test("what does not change the spec passes, whatever is wrong with it", () => {
  assert.equal(update({ agent: { image: "" } }, { agent: { image: "" } }), "skipped no_change");
  assert.equal(
    update({ agent: { ...agent, storage: "1Gi" } }, { agent: { ...agent, storage: "1024Mi" } }),
    "skipped no_change",
  );
});

test("a stored set stays editable: what it breaks already is not held against an update", () => {
  const longImage = `team/${"a".repeat(300)}:1`;
  const broken: Readonly<Record<string, { readonly agent: object; readonly toolboxes?: object }>> = {
    "no image": { agent: { image: "" } },
    "storage 0": { agent: { ...agent, storage: "0" } },
    "a long clone image": { agent: { image: longImage } },
    "an odd static address": {
      agent,
      toolboxes: [{ name: "t", mode: "static", staticIP: "no", staticVMID: "v" }],
    },
    "a long name": { agent, toolboxes: [{ name: "t".repeat(60), image: "a" }] },
  };
  for (const [what, spec] of Object.entries(broken)) {
    assert.match(update({ agent: { image: "other" } }, spec), /must|is required|long/, what);
    assert.equal(update(spec, { ...spec, suspend: true }), "allow", what);
    assert.equal(update(spec, { ...spec, agent: { ...spec.agent, replicas: 2 } }), "allow", what);
    assert.match(
      update(spec, { ...spec, snapshotPolicy: "x" }),
      /spec: spec.snapshotPolicy must be[^;]*$/,
      what,
    );
  }
});

test("a broken toolbox keeps its exemption when its index changes, and loses it when its value does", () => {
  const odd = { name: "odd", mode: "static", staticIP: "no", staticVMID: "v" };
  const good = { name: "good", image: "a" };
  const before = { agent, toolboxes: [good, odd] };
  assert.equal(update(before, { agent, toolboxes: [odd] }), "allow");
  assert.match(update(before, { agent, toolboxes: [{ ...odd, staticIP: "not" }] }), /staticIP "not"/);
});

test("the class of snapshots can be set once", () => {
  const withClass = (name: string | null | undefined) => ({ agent, snapshotCompatibilityClass: name });
  const refused = /snapshotCompatibilityClass is immutable once set/;
  assert.equal(update({ agent }, withClass("a")), "allow");
  assert.equal(update(withClass(null), withClass("a")), "allow");
  assert.match(update(withClass("a"), withClass("b")), refused);
  assert.match(update(withClass("a"), { agent }), refused);
  assert.match(update(withClass(""), withClass("b")), refused, "an empty one counts as set");
  assert.equal(update(withClass("a"), { ...withClass("a"), suspend: true }), "allow");
});
