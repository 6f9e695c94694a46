import assert from "node:assert/strict";
import { test } from "node:test";
import { gatewayKey } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import type { SetObject } from "./sandbox.ts";
import { changeTags } from "./template-tags.ts";

const tenant = { namespace: "a", user: "u", keyId: "k" };
const snapshot = { name: "t1", uid: "1" };

interface Patch {
  readonly metadata: { readonly resourceVersion: string; readonly annotations: Record<string, string> };
}

/** A set that another client tags in front of the first `conflicts` writes. */
function openSet(tags: string, conflicts: number) {
  let version = 1;
  let left = conflicts;
  const annotations: Record<string, string> = tags === "" ? {} : { [gatewayKey.templateTags]: tags };
  const describe = (): SetObject => ({
    metadata: { name: "t1", uid: "1", resourceVersion: String(version), annotations: { ...annotations } },
  });
  const patch = async (_tenant: unknown, _name: string, body: unknown) => {
    const { metadata } = body as Patch;
    if (left-- > 0) {
      version += 1;
      annotations[gatewayKey.templateTags] =
        `${annotations[gatewayKey.templateTags] ?? "default"},other${left}`;
    }
    if (metadata.resourceVersion !== String(version)) throw new Fault("conflict", "changed meanwhile");
    Object.assign(annotations, metadata.annotations);
    version += 1;
    return describe();
  };
  return { get: async () => describe(), patch, read: () => annotations[gatewayKey.templateTags] };
}

test("tags are added and removed; a build without tags written is default", async (t) => {
  const set = openSet("", 0);
  await changeTags(set, { tenant, snapshot, add: ["v1", "default"] }, t);
  assert.equal(set.read(), "default,v1");
  await changeTags(set, { tenant, snapshot, remove: ["default", "v1"] }, t);
  assert.equal(set.read(), "");
});

test("what another client tags meanwhile is kept, and an endless race is a conflict", async (t) => {
  const set = openSet("default", 2);
  await changeTags(set, { tenant, snapshot, add: ["mine"] }, t);
  assert.equal(set.read(), "default,other1,other0,mine");
  await assert.rejects(changeTags(openSet("default", 100), { tenant, snapshot, add: ["mine"] }, t), {
    code: "conflict",
  });
});
