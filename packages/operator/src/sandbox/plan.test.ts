/** Decisions of the agent-sandbox controllers, as tables. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  readSandbox,
  readSandboxClaim,
  readSandboxTemplate,
  readSandboxWarmPool,
  sandboxHash,
  sandboxLabel,
  type Sandbox,
} from "@cocoon/contract/agent-sandbox";
import type { Pod, Service } from "@cocoon/kube";
import type { CustomObject } from "../kinds.ts";
import { computeClaimStatus, getClaimExpiry } from "./claim-status.ts";
import { injectEnv, mergeMetadata } from "./claim-metadata.ts";
import { hashTemplate } from "./from-template.ts";
import { planPool } from "./plan-pool.ts";
import { planSandbox, type ObservedSandbox } from "./plan-sandbox.ts";
import { buildSandboxPod, podMetadataPatch } from "./pod.ts";
import { computeSandboxStatus } from "./sandbox-status.ts";
import { buildService } from "./service.ts";

const now = new Date("2026-11-18T00:00:00Z");
const earlier = "2026-11-17T00:00:00Z";
const later = "2026-11-19T00:00:00Z";
const containers = [{ name: "agent", image: "demo", ports: [{ containerPort: 80 }, { containerPort: 80 }] }];

function sandbox(spec: object = {}, more: object = {}): Sandbox {
  return readSandbox({
    metadata: { namespace: "lab", name: "s1", uid: "u1", generation: 2, ...more },
    spec: { podTemplate: { spec: { containers } }, ...spec },
  });
}

function marked(spec: object): Sandbox {
  const ready = {
    type: "Ready",
    status: "False",
    reason: "SandboxExpired",
    message: "",
    lastTransitionTime: earlier,
  };
  return { ...sandbox(spec), status: { conditions: [ready as never] } };
}

const reference = { apiVersion: "agents.x-k8s.io/v1beta1", kind: "Sandbox", name: "s1", controller: true };
const pod = (more: object = {}, status: object = {}): Pod => ({
  ...buildSandboxPod(sandbox()),
  metadata: {
    ...buildSandboxPod(sandbox()).metadata,
    ownerReferences: [{ ...reference, uid: "u1" }],
    ...more,
  },
  status,
});
const bare = pod({ ownerReferences: [], labels: {} });
const live = {
  phase: "Running",
  podIPs: [{ ip: "127.0.0.9" }],
  conditions: [{ type: "Ready", status: "True" }],
};

function observed(more: Partial<ObservedSandbox>): ObservedSandbox {
  return { sandbox: sandbox(), named: more.owned?.[0], owned: [], service: undefined, now, ...more };
}

const suspended = sandbox({ operatingMode: "Suspended" });
const expired = { shutdownTime: earlier };
const plans: readonly (readonly [string, ObservedSandbox, string])[] = [
  ["no pod", observed({}), "createPod"],
  ["an owned pod", observed({ owned: [pod()] }), ""],
  ["a pod that terminates is waited for", observed({ owned: [pod({ deletionTimestamp: earlier })] }), ""],
  ["a pod that failed is never replaced", observed({ owned: [pod({}, { phase: "Failed" })] }), ""],
  ["an unowned pod with its hash", observed({ named: pod({ ownerReferences: [] }) }), "adoptPod"],
  ["two pods", observed({ owned: [pod(), pod({ name: "s2" })] }), ""],
  ["metadata follows", observed({ owned: [pod({ labels: {} })] }), "patchPod"],
  ["suspended", observed({ sandbox: suspended, owned: [pod()] }), "deletePod"],
  ["suspending", observed({ sandbox: suspended, owned: [pod({ deletionTimestamp: earlier })] }), ""],
  ["suspended, another's pod", observed({ sandbox: suspended, named: bare }), ""],
  ["expired: first the status", observed({ sandbox: sandbox(expired), owned: [pod()] }), ""],
  ["expired: a pause", observed({ sandbox: marked(expired), owned: [pod()] }), "deletePod"],
  [
    "expired: the end",
    observed({ sandbox: marked({ ...expired, shutdownPolicy: "Delete" }), owned: [pod()] }),
    "deleteSandbox",
  ],
  ["the time was moved", observed({ sandbox: marked({ shutdownTime: later }) }), "createPod"],
  ["a Service", observed({ sandbox: sandbox({ service: true }), owned: [pod()] }), "createService"],
  [
    "no Service any more",
    observed({ sandbox: sandbox({ service: false }), owned: [pod()], service: owned() }),
    "deleteService",
  ],
];

function owned(): Service {
  return buildService(sandbox());
}

for (const [title, world, wanted] of plans)
  test(`a Sandbox, ${title}: ${wanted || "nothing"}`, () =>
    assert.equal(
      planSandbox(world)
        .map(({ kind }) => kind)
        .join(" "),
      wanted,
    ));

test("what stands in the way is an error", () => {
  assert.throws(() => planSandbox(observed({ named: bare })), /not ours/);
  const other = pod({ ownerReferences: [{ ...reference, uid: "u2" }] });
  assert.throws(() => planSandbox(observed({ named: other })), /another owner/);
  const volumes = sandbox({ volumeClaimTemplates: [{ spec: {} }] });
  assert.throws(() => planSandbox(observed({ sandbox: volumes })), { code: "invalid" });
});

const words: readonly (readonly [string, ObservedSandbox & { error?: unknown }, string, string])[] = [
  ["ready", observed({ owned: [pod({}, live)] }), "DependenciesReady", "Pod is Ready"],
  [
    "a pod that terminates is not ready, whatever it says",
    observed({ owned: [pod({ deletionTimestamp: earlier }, live)] }),
    "DependenciesNotReady",
    "Pod is Running but not Ready",
  ],
  [
    "no address",
    observed({ owned: [pod({}, { ...live, podIPs: [] })] }),
    "DependenciesNotReady",
    "Pod is Ready but has no podIPs yet",
  ],
  ["none", observed({}), "DependenciesNotReady", "Pod does not exist"],
  [
    "Service",
    observed({ sandbox: sandbox({ service: true }), owned: [pod({}, live)] }),
    "DependenciesNotReady",
    "Pod is Ready; Service does not exist",
  ],
  [
    "suspending",
    observed({ sandbox: suspended, owned: [pod()] }),
    "SandboxSuspended",
    "Sandbox is suspending",
  ],
  ["suspended", observed({ sandbox: suspended }), "SandboxSuspended", "Sandbox is suspended"],
  ["ended", observed({ owned: [pod({}, { phase: "Failed" })] }), "PodFailed", "Pod failed"],
  ["expired", observed({ sandbox: sandbox(expired) }), "SandboxExpired", "Sandbox has expired"],
];

for (const [title, world, reason, message] of words)
  test(`the status of a Sandbox: ${title}`, () => {
    const { conditions = [] } = computeSandboxStatus({ ...world, clusterDomain: "cluster.local" });
    const ready = conditions.find(({ type }) => type === "Ready");
    assert.deepEqual([ready?.reason, ready?.message, ready?.observedGeneration], [reason, message, 2]);
  });

test("labels of a template reach the pod, reserved ones do not, and only propagated ones are removed", () => {
  const labelled = (labels: object) =>
    sandbox({ podTemplate: { metadata: { labels }, spec: { containers } } });
  const made = buildSandboxPod(labelled({ a: "1", [sandboxLabel.claimUid]: "c" }));
  assert.deepEqual(made.metadata.labels, { a: "1", [sandboxLabel.nameHash]: sandboxHash("s1") });
  const changed: Pod = {
    ...made,
    metadata: { ...made.metadata, labels: { ...made.metadata.labels, theirs: "x" } },
  };
  assert.deepEqual(podMetadataPatch(labelled({ b: "2" }), changed)?.labels, { b: "2", a: null });
});

test("ports of a Service are named once each", () => {
  assert.deepEqual(owned().spec?.ports, [{ name: "p-80-tcp", port: 80, targetPort: 80, protocol: "TCP" }]);
});

test("the hash is upstream's", () => {
  assert.deepEqual(["s1", "tpl", "pool"].map(sandboxHash), ["0851b8c9", "9d22159f", "91dd7983"]);
});

const template = readSandboxTemplate({
  metadata: { namespace: "lab", name: "tpl", uid: "t1" },
  spec: {
    podTemplate: {
      metadata: { labels: { a: "1" } },
      spec: { containers: [{ name: "agent", env: [{ name: "A", value: "1" }] }] },
    },
    envVarsInjectionPolicy: "Allowed",
  },
});
const claim = (spec: object) =>
  readSandboxClaim({
    metadata: { name: "c1", uid: "c-uid" },
    spec: { warmPoolRef: { name: "pool" }, ...spec },
  });

test("a claim's metadata and environment are checked", () => {
  const labels = { "sandbox.users.io/x": "1" };
  assert.deepEqual(mergeMetadata(template, claim({ additionalPodMetadata: { labels } })).labels, {
    a: "1",
    ...labels,
    [sandboxLabel.claimUid]: "c-uid",
  });
  const refused = (additionalPodMetadata: object) => () =>
    mergeMetadata(template, claim({ additionalPodMetadata }));
  assert.throws(refused({ labels: { a: "2" } }), { reason: "InvalidMetadata" });
  assert.throws(refused({ annotations: { "x.k8s.io/y": "2" } }), { reason: "InvalidMetadata" });
  assert.doesNotThrow(refused({ annotations: { "podsnapshot.gke.io/ps-name": "x" } }));
  assert.throws(
    () => injectEnv(template, claim({ env: [{ name: "A", value: "2" }] })),
    /set by the template/,
  );
  assert.deepEqual(injectEnv(template, claim({ env: [{ name: "B", value: "2" }] }))[0]?.env, [
    { name: "A", value: "1" },
    { name: "B", value: "2" },
  ]);
});

test("a claim expires at the earlier of its time and the end of its pod plus ttl", () => {
  const finished = [
    { type: "Finished", status: "True", reason: "PodSucceeded", message: "", lastTransitionTime: earlier },
  ];
  const { spec, ...rest } = claim({ lifecycle: { shutdownTime: later, ttlSecondsAfterFinished: 10 } });
  assert.equal(getClaimExpiry({ spec, ...rest }), Date.parse(later));
  const ended = { spec, ...rest, status: { conditions: finished as never } };
  assert.equal(getClaimExpiry(ended), Date.parse(earlier) + 10_000);
  assert.equal(getClaimExpiry(claim({})), undefined);
});

function member(
  name: string,
  { ready = true, createdAt = "2026-11-17T23:59:00Z", hash = "" } = {},
): CustomObject {
  const condition = {
    type: "Ready",
    status: ready ? "True" : "False",
    reason: "R",
    message: "",
    lastTransitionTime: earlier,
  };
  const labels = { [sandboxLabel.templateHash]: hash || hashTemplate(template) };
  return {
    metadata: { name, uid: name, creationTimestamp: createdAt, labels },
    spec: { podTemplate: { spec: { containers } } },
    status: { conditions: [condition] },
  };
}

const pool = (replicas: number, type = "OnReplenish") =>
  readSandboxWarmPool({
    metadata: { name: "pool", uid: "p1" },
    spec: { replicas, sandboxTemplateRef: { name: "tpl" }, updateStrategy: { type } },
  });
const templateHash = hashTemplate(template);

test("a pool is filled, shrunk and renewed", () => {
  const plan = (members: CustomObject[], replicas = 2, type = "OnReplenish") => {
    const { create, remove } = planPool({ pool: pool(replicas, type), templateHash, members, now });
    return [create, remove.map(({ metadata }) => metadata.name)];
  };
  assert.deepEqual(plan([]), [2, []]);
  assert.deepEqual(
    plan([member("a"), member("b", { ready: false }), member("c")]),
    [0, ["b"]],
    "not ready first",
  );
  assert.deepEqual(plan([member("a", { hash: "old" }), member("b")]), [0, []], "OnReplenish keeps old ones");
  assert.deepEqual(plan([member("a", { hash: "old" }), member("b")], 2, "Recreate"), [1, ["a"]]);
  assert.deepEqual(
    plan([member("a", { ready: false, createdAt: earlier }), member("b")]),
    [1, ["a"]],
    "stuck",
  );
});

test("a claim is not ready by what its Sandbox said before it was taken, and stays ready once it is", () => {
  const ready = { type: "Ready", status: "True", reason: "DependenciesReady", message: "Pod is Ready" };
  const conditions = (observedGeneration: number) => [
    { ...ready, lastTransitionTime: earlier, observedGeneration },
  ];
  const shown = (observedGeneration: number, status: object = {}) => {
    const member = { ...sandbox(), status: { conditions: conditions(observedGeneration) } };
    const spec = { warmPoolRef: { name: "pool" } };
    const claim = readSandboxClaim({ metadata: { namespace: "lab", name: "c1", uid: "u2" }, spec, status });
    return computeClaimStatus({ claim, sandbox: member, now }).conditions?.[0]?.reason;
  };
  assert.equal(shown(1), "SandboxNotReady");
  assert.equal(shown(2), "DependenciesReady");
  assert.equal(shown(1, { conditions: conditions(1) }), "DependenciesReady");
});

test("a machine that stood still in its pool is not ready before it runs", () => {
  const paused = (annotations: object) =>
    computeSandboxStatus({
      ...observed({ owned: [pod({ annotations }, live)] }),
      clusterDomain: "cluster.local",
    }).conditions?.find(({ type }) => type === "Ready")?.status;
  const noted = { "vm.cocoonstack.io/paused": "true" };
  assert.equal(paused({ ...noted, "vm.cocoonstack.io/pause": "true" }), "True", "a member of a pool");
  assert.equal(paused(noted), "False");
  assert.equal(paused({}), "True");
});
