import assert from "node:assert/strict";
import { test } from "node:test";
import { annotation } from "@cocoon/contract";
import { applyJsonPatch } from "@cocoon/core/json-patch";
import type { Pod } from "@cocoon/kube";
import type { Placement } from "../nodes/placement.ts";
import type { Entry } from "../store/entry.ts";
import { keepOffPatch } from "./keep-off.ts";
import { patchPod } from "./patch-pod.ts";
import { readPod } from "./read-pod.ts";

const entry: Entry = {
  pool: "default",
  namespace: "ns",
  deployment: "web",
  slot: 4,
  vmName: "vk-ns-web-4",
  pod: "",
  node: "n1",
  updatedAt: "",
  owner: { kind: "Deployment", name: "web", uid: "" },
  claim: "c",
  podUid: "",
  goneSince: "",
  lastGone: "",
};

function patched(object: object, placement: Placement = { node: "n1", pin: "nodeName" }): Pod {
  const pod = readPod(object as Record<string, unknown>);
  return applyJsonPatch(object, patchPod(pod, { entry, placement, from: "" }, "digest")) as Pod;
}

const base = { metadata: {}, spec: { containers: [{ name: "c", image: "team/x:1" }], tolerations: [] } };

test("a pod that says nothing gets everything", () => {
  const { metadata, spec } = patched(base);
  assert.deepEqual(metadata.annotations, {
    [annotation.vmName]: "vk-ns-web-4",
    [annotation.reservation]: "c",
    [annotation.image]: "team/x:1",
    [annotation.managed]: "true",
    [annotation.os]: "linux",
    "controller.kubernetes.io/pod-deletion-cost": "-4",
    [annotation.admission]: JSON.stringify({
      pin: "nodeName",
      shape: "digest",
      added: {
        [annotation.image]: "team/x:1",
        [annotation.managed]: "true",
        [annotation.os]: "linux",
        "controller.kubernetes.io/pod-deletion-cost": "-4",
      },
    }),
  });
  assert.equal(spec?.nodeName, "n1");
  assert.deepEqual(
    spec.tolerations?.map(({ key, effect }) => [key, effect]),
    [
      ["node.kubernetes.io/not-ready", "NoExecute"],
      ["node.kubernetes.io/unreachable", "NoExecute"],
    ],
  );
});

test("what a pod says itself stays, except its machine's name", () => {
  const annotations = {
    [annotation.vmName]: "mine",
    [annotation.image]: "other:2",
    [annotation.os]: "windows",
    [annotation.mode]: "static",
    "controller.kubernetes.io/pod-deletion-cost": "7",
  };
  const tolerations = [
    { key: "node.kubernetes.io/not-ready", operator: "Exists", effect: "NoExecute", tolerationSeconds: 60 },
    {
      key: "node.kubernetes.io/unreachable",
      operator: "Exists",
      effect: "NoExecute",
      tolerationSeconds: 300,
    },
  ];
  const { metadata, spec } = patched({ metadata: { annotations }, spec: { ...base.spec, tolerations } });
  assert.deepEqual(metadata.annotations, {
    ...annotations,
    [annotation.vmName]: "vk-ns-web-4",
    [annotation.reservation]: "c",
    [annotation.admission]: JSON.stringify({ pin: "nodeName", shape: "digest", added: {} }),
  });
  assert.deepEqual(
    spec?.tolerations?.map(({ tolerationSeconds }) => tolerationSeconds),
    [60, undefined],
    "only the API server's default is taken away",
  );
});

test("a pin by affinity is added to every alternative that the pod has", () => {
  const preferred = [{ weight: 1, preference: { matchExpressions: [] } }];
  const terms = [
    { matchExpressions: [{ key: "disk", operator: "In", values: ["ssd"] }] },
    { matchFields: [{ key: "metadata.name", operator: "NotIn", values: ["x"] }] },
  ];
  const affinity = {
    podAntiAffinity: {},
    nodeAffinity: {
      preferredDuringSchedulingIgnoredDuringExecution: preferred,
      requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: terms },
    },
  };
  const pin = { key: "metadata.name", operator: "In", values: ["n1"] };
  const { spec } = patched({ ...base, spec: { ...base.spec, affinity } }, { node: "n1", pin: "affinity" });
  assert.deepEqual(spec?.affinity, {
    podAntiAffinity: {},
    nodeAffinity: {
      preferredDuringSchedulingIgnoredDuringExecution: preferred,
      requiredDuringSchedulingIgnoredDuringExecution: {
        nodeSelectorTerms: [
          { ...terms[0], matchFields: [pin] },
          { matchFields: [...(terms[1]?.matchFields ?? []), pin] },
        ],
      },
    },
  });
  const alone = patched(base, { node: "n1", pin: "affinity" });
  assert.match(JSON.stringify(alone.spec?.affinity), /"matchFields":\[\{"key":"metadata.name"/);
  assert.equal(alone.spec?.nodeName, undefined);
});

test("a pod that tolerates everything is kept off VM hosts, whatever else it requires", () => {
  const pod = readPod(base);
  const { spec } = applyJsonPatch(base, keepOffPatch(pod)) as Pod;
  assert.match(JSON.stringify(spec?.affinity), /cocoon-vm","operator":"DoesNotExist"/);
});
