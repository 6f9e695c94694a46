/** The end of a Sandbox is believed only of the machine that is named after it, and of a uid that no Sandbox has. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { annotation, sandboxMachineAnnotation, sandboxVmName } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import type { KubeClient, KubeObject } from "@cocoon/kube";
import type { Pod } from "@cocoon/kubelet";
import { findSandboxState } from "./sandbox-owner.ts";
import { findTakenOver } from "./take-over.ts";

const signal = new AbortController().signal;

function buildPod(owner: { readonly name: string; readonly uid: string }, vmName?: string): Pod {
  const reference = { apiVersion: "agents.x-k8s.io/v1beta1", kind: "Sandbox", controller: true, ...owner };
  return {
    metadata: {
      namespace: "lab",
      name: "s1",
      ownerReferences: [reference],
      annotations: { [annotation.vmName]: vmName ?? sandboxVmName("lab", owner.uid) },
    },
    spec: { containers: [] },
  };
}

function clientWith(sandboxes: readonly KubeObject["metadata"][], namespace: object = {}): KubeClient {
  const items = sandboxes.map((metadata) => ({ metadata }));
  return {
    list: (_type: unknown, { fieldSelector }: { fieldSelector: string }) =>
      Promise.resolve({ items: items.filter(({ metadata }) => fieldSelector.endsWith(`=${metadata.name}`)) }),
    // oxlint-disable-next-line typescript/require-await -- a page that is there already
    pages: async function* () {
      yield { items };
    },
    get: () => Promise.resolve({ metadata: { name: "lab", ...namespace } }),
  } as unknown as KubeClient;
}

function failing(code: "notFound" | "unavailable"): KubeClient {
  return { list: () => Promise.reject(new Fault(code, "no")) } as unknown as KubeClient;
}

const own = { namespace: "lab", name: "s1", uid: "00000000-0000-0000-0000-000000000001" };
const earlier = sandboxVmName("lab", "00000000-0000-0000-0000-000000000002");
const takenOverBy = (uid: string) => ({
  ...own,
  annotations: { [sandboxMachineAnnotation]: `${uid}/${earlier}` },
});
/** The one that the machine is named after. */
const rival = { namespace: "lab", name: "s2", uid: "00000000-0000-0000-0000-000000000002" };
const deletionTimestamp = "2026-01-01T00:00:00Z";

const states: readonly (readonly [string, Pod, KubeClient, string])[] = [
  ["it lives", buildPod(own), clientWith([own]), "alive"],
  ["it is gone", buildPod(own), clientWith([]), "ended"],
  ["another one has its name", buildPod(own), clientWith([{ ...own, uid: "other" }]), "ended"],
  ["it is terminating", buildPod(own), clientWith([{ ...own, deletionTimestamp }]), "ended"],
  ["its namespace is terminating", buildPod(own), clientWith([own], { deletionTimestamp }), "ended"],
  ["the owner reference has another name", buildPod({ ...own, name: "x" }), clientWith([own]), "alive"],
  ["the machine is another one's", buildPod(own, "vk-lab-demo-0"), clientWith([]), "none"],
  ["the machine is that of an earlier Sandbox", buildPod(own, earlier), clientWith([own]), "none"],
  ["it took the machine over", buildPod(own, earlier), clientWith([takenOverBy(own.uid)]), "alive"],
  ["another one has the machine", buildPod(own, earlier), clientWith([takenOverBy(own.uid), rival]), "none"],
  ["it has a copied annotation", buildPod(own, earlier), clientWith([takenOverBy("other")]), "none"],
  ["the API is not served", buildPod(own), failing("notFound"), "alive"],
];

for (const [title, pod, client, expected] of states)
  test(`a Sandbox: ${title}`, async () => {
    assert.equal(await findSandboxState(client, pod, { signal }), expected);
  });

test("an API server that does not answer says nothing about the Sandbox", async () => {
  await assert.rejects(findSandboxState(failing("unavailable"), buildPod(own), { signal }), {
    code: "unavailable",
  });
});

test("a pod continues under a machine's name only while no other Sandbox has that machine", async () => {
  const pod = buildPod(own);
  const find = (...sandboxes: KubeObject["metadata"][]) =>
    findTakenOver(clientWith(sandboxes), pod, { signal });
  assert.equal(await find(takenOverBy(own.uid)), earlier);
  assert.equal(await find(takenOverBy(own.uid), rival), undefined);
  assert.equal(await find(own), undefined);
});
