/** Whose machine a name is, and who may start from it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import type { KubeClient } from "@cocoon/kube";
import type { Pod } from "@cocoon/kubelet";
import { assertIdentity } from "./identity.ts";
import { assertSourceAllowed } from "./source-access.ts";

const grant = (namespace: string, spec: object) => ({ metadata: { namespace, name: "g" }, spec });
const { signal } = new AbortController();
const forbidden = (error: unknown) => isFault(error, "forbidden");

function use(source: string, owner: string, grants: readonly object[] = []): Promise<void> {
  const client = { pages: () => [{ items: grants }] } as unknown as KubeClient;
  return assertSourceAllowed(client, { namespace: "lab", source, owner }, { signal });
}

test("images and machines of the own namespace are free", async () => {
  await use("team/base-agent", "");
  await use("vk-lab-atlas-0", "lab");
  await use("vk-lab-atlas-0", "");
});

test("a recorded namespace wins over a name that only looks like the own one", async () => {
  await assert.rejects(use("vk-lab-b-atlas-0", "lab-b"), forbidden);
  await assert.rejects(use("vk-other-atlas-0", ""), forbidden);
});

test("a grant of the source's namespace for this namespace, and its sets only", async () => {
  const all = grant("other", { namespaces: ["lab"] });
  const atlas = grant("other", { namespaces: ["lab"], sets: ["atlas"] });
  await use("vk-other-atlas-0", "other", [all]);
  await use("vk-other-atlas-0", "other", [atlas]);
  await assert.rejects(use("vk-other-secret-0", "other", [atlas]), forbidden);
  await assert.rejects(use("vk-other-atlas-0", "other", [grant("other", { namespaces: ["x"] })]), forbidden);
  await assert.rejects(
    use("vk-other-atlas-0", "other", [grant("third", { namespaces: ["lab"] })]),
    forbidden,
  );
  await assert.rejects(use("vk-other-atlas-0", "other", [grant("other", { namespaces: "lab" })]), forbidden);
});

function podNamed(vmName: string, { set, managed = "true" }: { set?: string; managed?: string } = {}): Pod {
  const ownerReferences = set === undefined ? [] : [{ kind: "CocoonSet", name: set }];
  const annotations = { "vm.cocoonstack.io/name": vmName, "cocoonset.cocoonstack.io/managed": managed };
  return { metadata: { namespace: "lab", name: "p", annotations, ownerReferences } } as unknown as Pod;
}

test("a name must be one that the pod's namespace and set can have", () => {
  assertIdentity(podNamed("vk-lab-p"));
  assertIdentity(podNamed("vk-lab-atlas-0", { set: "atlas" }));
  assertIdentity(podNamed("anything", { managed: "false" }));
  assert.throws(() => assertIdentity(podNamed("vk-other-p")), forbidden);
  assert.throws(() => assertIdentity(podNamed("vk-lab-")), forbidden);
  assert.throws(() => assertIdentity(podNamed("vk-lab-other-0", { set: "atlas" })), forbidden);
});
