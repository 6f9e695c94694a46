import assert from "node:assert/strict";
import { test } from "node:test";
import type { AdmissionContext, AdmissionRequest } from "@cocoon/kube/admission";
import type { Judgement } from "./judgement.ts";
import { validateSets } from "./validate-cocoonset.ts";

const context = { signal: new AbortController().signal } as AdmissionContext;
const judge = validateSets({ collisions: () => [], doubtsAbout: () => [], isAbsent: undefined });
const agent = { image: "team/base:1" };

function update(before: object, after: object): string {
  const request = {
    operation: "UPDATE",
    namespace: "ns",
    name: "demo",
    object: { metadata: { name: "demo" }, spec: after },
    oldObject: { metadata: { name: "demo" }, spec: before },
  } as unknown as AdmissionRequest;
  const { verdict, result, reason } = judge(request, context) as Judgement;
  return verdict.kind === "deny" ? verdict.message : `${result} ${reason}`.trim();
}

test("what does not change the spec passes, whatever is wrong with it", () => {
  assert.equal(update({ agent: { image: "" } }, { agent: { image: "" } }), "skipped no_change");
  assert.equal(
    update({ agent: { ...agent, storage: "1Gi" } }, { agent: { ...agent, storage: "1024Mi" } }),
    "skipped no_change",
  );
  assert.match(update({ agent: { image: "" } }, { agent: { image: "", replicas: 1 } }), /image is required/);
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
