/** Every line of the decision table for workloads, asked over HTTPS. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { hostTaint, workloadAnnotation } from "@cocoon/contract";
import { deployments, type Workload } from "@cocoon/kube";
import { eventually } from "@cocoon/testkit";
import { openBorder, withMethods, type Border } from "./border.ts";
import { table, type Row } from "./decision-table.ts";
import { buildDeployment } from "./objects.ts";

let sticky: Border;
const stack = new AsyncDisposableStack();
const signal = new AbortController().signal;
/** Of this run alone: the control plane is shared. */
const ns = `wrk-${randomBytes(3).toString("hex")}`;
const tolerations = [{ key: hostTaint.key, operator: "Exists" }];
const containers = [{ name: "c", image: "i" }];

before(async () => {
  sticky = stack.use(await openBorder());
  await sticky.cluster.kubectl(["create", "namespace", ns]);
});
after(async () => {
  await sticky.cluster.kubectl(["delete", "namespace", ns, "--wait=false"]);
  await stack.disposeAsync();
});

const workload = (replicas: number | undefined, { cocoon = true, annotations = {} } = {}) => ({
  metadata: { name: "box", namespace: ns, annotations },
  spec: {
    ...(replicas === undefined ? {} : { replicas }),
    template: { spec: { containers, ...(cocoon ? { tolerations } : {}) } },
  },
});
const update = (oldObject: object, object: object, more: object = {}) => ({
  operation: "UPDATE",
  kind: { group: "apps", version: "v1", kind: "Deployment" },
  resource: { group: "apps", version: "v1", resource: "deployments" },
  namespace: ns,
  name: "box",
  oldObject,
  object,
  ...more,
});
const blocked = (kind: string, from: number, to: number) =>
  new RegExp(
    `^cocoon-webhook: scale-down blocked for cocoon ${kind} ${ns}/\\S+ \\(${from} -> ${to}\\)\\. Use a CocoonHibernation CR to suspend individual agents\\.`,
  );

describe("/validate", () => {
  const rows: Row[] = [
    {
      name: "a creation",
      fields: update({}, {}, { operation: "CREATE" }),
      allowed: true,
      result: "skipped",
      reason: "operation",
    },
    {
      name: "another kind",
      fields: update(workload(5), workload(2), { kind: { kind: "DaemonSet" } }),
      allowed: true,
      result: "skipped",
      reason: "kind",
    },
    {
      name: "no object",
      fields: update(workload(5), { spec: [] }),
      allowed: true,
      result: "skipped",
      reason: "decode",
    },
    {
      name: "replicas of a wrong type",
      fields: update(workload(5), { metadata: {}, spec: { replicas: "many" } }),
      allowed: true,
      result: "skipped",
      reason: "decode",
    },
    {
      name: "an ordinary workload",
      fields: update(workload(5, { cocoon: false }), workload(2, { cocoon: false })),
      allowed: true,
      result: "skipped",
      reason: "not_cocoon",
    },
    { name: "more", fields: update(workload(2), workload(5)), allowed: true, result: "allow", reason: "" },
    {
      name: "as many",
      fields: update(workload(undefined), workload(1)),
      allowed: true,
      result: "allow",
      reason: "",
    },
    {
      name: "fewer",
      fields: update(workload(5), workload(2)),
      allowed: false,
      result: "deny",
      reason: "",
      message: blocked("Deployment", 5, 2),
    },
    {
      name: "a missing number is one",
      fields: update(workload(5), workload(undefined)),
      allowed: false,
      result: "deny",
      reason: "",
      message: blocked("Deployment", 5, 1),
    },
    {
      name: "a StatefulSet too",
      fields: update(workload(3), workload(0), { kind: { kind: "StatefulSet" } }),
      allowed: false,
      result: "deny",
      reason: "",
      message: blocked("StatefulSet", 3, 0),
    },
    {
      name: "dropping the toleration along with it",
      fields: update(workload(5), workload(2, { cocoon: false })),
      allowed: false,
      result: "deny",
      reason: "",
      message: blocked("Deployment", 5, 2),
    },
    {
      name: "dropping the toleration first",
      fields: update(workload(5), workload(5, { cocoon: false })),
      allowed: false,
      result: "deny",
      reason: "",
      message: /removing toleration virtual-kubelet\.io\/provider blocked/,
    },
    {
      name: "one that is meant",
      fields: update(
        workload(5),
        workload(2, { annotations: { [workloadAnnotation.allowScaleDown]: "true" } }),
      ),
      allowed: true,
      result: "allow",
      reason: "",
    },
    {
      name: "a ReplicaSet by hand",
      fields: update(workload(5), workload(2), { kind: { kind: "ReplicaSet" } }),
      allowed: false,
      result: "deny",
      reason: "",
      message: blocked("ReplicaSet", 5, 2),
    },
    {
      name: "a ReplicaSet by its Deployment's controller",
      fields: update(workload(5), workload(2), {
        kind: { kind: "ReplicaSet" },
        userInfo: { username: "system:serviceaccount:kube-system:deployment-controller" },
      }),
      allowed: true,
      result: "allow",
      reason: "",
    },
    {
      name: "a deletion",
      fields: update(workload(5), {}, { operation: "DELETE", object: null }),
      allowed: false,
      result: "deny",
      reason: "",
      message: /deletion blocked for cocoon Deployment .* 5 machines/,
    },
    {
      name: "a deletion of what has none",
      fields: update(workload(0), {}, { operation: "DELETE", object: null }),
      allowed: true,
      result: "allow",
      reason: "",
    },
    {
      name: "a deletion with the namespace",
      fields: update(
        workload(5),
        {},
        {
          operation: "DELETE",
          object: null,
          userInfo: { username: "system:serviceaccount:kube-system:namespace-controller" },
        },
      ),
      allowed: true,
      result: "allow",
      reason: "",
    },
    {
      name: "the scale of something else",
      fields: update(
        { spec: { replicas: 5 } },
        { spec: { replicas: 2 } },
        {
          subResource: "scale",
          resource: { resource: "replicationcontrollers" },
        },
      ),
      allowed: true,
      result: "skipped",
      reason: "no_parent",
    },
    {
      name: "the scale of nothing",
      fields: update(
        { spec: { replicas: 5 } },
        { spec: { replicas: 2 } },
        { subResource: "scale", name: "nothing" },
      ),
      allowed: true,
      result: "skipped",
      reason: "no_parent",
    },
    {
      name: "a scale that cannot be read",
      fields: update({ spec: 5 }, { spec: { replicas: 2 } }, { subResource: "scale" }),
      allowed: true,
      result: "skipped",
      reason: "decode",
    },
  ];
  table("/validate", "validate", { border: () => sticky, rows });

  test("a scale is judged by its parent; no API call is made for one that the cache knows", async () => {
    const make = (name: string, spec: object) =>
      sticky.client.create(deployments, buildDeployment(ns, { name, replicas: 0, spec }) as Workload, {
        signal,
      });
    await make("cocoon", {});
    await make("plain", { tolerations: [] });
    const scale = (name: string) =>
      sticky.ask("/validate", {
        ...update({ spec: { replicas: 5 } }, { spec: { replicas: 2 } }, { subResource: "scale", name }),
        kind: { group: "autoscaling", version: "v1", kind: "Scale" },
      });
    await eventually(async () => {
      const response = await scale("cocoon");
      assert.equal(response.allowed, false);
      assert.match(response.status?.message ?? "", blocked("Scale", 5, 2));
    });
    assert.equal((await scale("plain")).allowed, true);
    const annotations = { [workloadAnnotation.allowScaleDown]: "true" };
    const patch = { type: "merge", body: { metadata: { annotations } } } as const;
    await sticky.client.patch(deployments, { key: { namespace: ns, name: "cocoon" }, patch }, { signal });
    await eventually(async () => assert.equal((await scale("cocoon")).allowed, true));
  });

  test("a parent that cannot be looked up is not taken for none", async () => {
    await using broken = await openBorder({
      wrapClient: (client) =>
        withMethods(client, { get: () => Promise.reject(new Error("the API server is away")) }),
    });
    const fields = update(
      { spec: { replicas: 5 } },
      { spec: { replicas: 2 } },
      { subResource: "scale", name: "who" },
    );
    const response = await broken.ask("/validate", fields);
    assert.equal(response.allowed, false);
    assert.equal(
      response.status?.message,
      "cocoon-webhook: cannot verify parent workload: get parent deployment: the API server is away",
    );
    assert.equal(await broken.counted("validate", "error", "parent_fetch"), 1);
  });
});
