/**
 * Which machine a pod stands for cannot be changed by who may edit the pod: real API server, several users. The first
 * half runs with no webhook at all: the admission policy alone must hold.
 */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { annotation, hostTaint, legacyAnnotation, systemNamespace } from "@cocoon/contract";
import { pods } from "@cocoon/kube";
import { eventually, ownControlPlane } from "@cocoon/testkit";
import { startTestNodes } from "./nodes.ts";
import { apply, buildDeployment, machinePod } from "./objects.ts";
import { addTenant, refused, runAs, succeed, type Tenant } from "./tenants.ts";
import { buildWorld, type WebhookWorld } from "./world.ts";

let world: WebhookWorld;
let alice: Tenant;
const stack = new AsyncDisposableStack();
const signal = new AbortController().signal;

before(async () => {
  const cluster = stack.use(await ownControlPlane());
  world = stack.use(await buildWorld(cluster));
  stack.use(await startTestNodes({ client: world.client, names: ["node-a", "node-b"] }));
  alice = await addTenant(cluster, "alice");
  await addTenant(cluster, "bob");
});

after(() => stack.disposeAsync());

const policyText = /ValidatingAdmissionPolicy 'machine-identity.cocoonstack.io'.* denied request/s;
const operator = `system:serviceaccount:${systemNamespace}:cocoon-operator`;
const kubelet = `system:serviceaccount:${systemNamespace}:vk-cocoon`;

async function readAnnotations(name: string): Promise<Readonly<Record<string, string>>> {
  const pod = await world.client.get(pods, { namespace: alice.namespace, name }, { signal });
  return pod.metadata.annotations ?? {};
}

describe("while the webhook is down", () => {
  const name = "kept";
  const vmName = `vk-alice-${name}`;

  before(async () => {
    // Such namespaces are not sent to the webhook: only the policy looks at their pods.
    await succeed(world.cluster.kubectl(["label", "namespace", "alice", "cocoonstack.io/webhook=ignore"]));
    const pod = machinePod(alice.namespace, name) as { metadata: object };
    const annotations = { [annotation.vmName]: vmName, [annotation.image]: "team/base:1" };
    // A new policy is enforced within seconds of its creation.
    await eventually(
      () =>
        refused(
          alice.run(["create", "--dry-run=server", "-f", "-"], {
            ...machinePod(alice.namespace, "probe"),
            metadata: { name: "probe", annotations: { [annotation.vmName]: "vk-bob-box" } },
          }),
          policyText,
        ),
      { timeoutMs: 30_000 },
    );
    await apply(world.cluster, { ...pod, metadata: { ...pod.metadata, annotations } });
  });

  after(() =>
    world.cluster
      .kubectl(["label", "namespace", "alice", "cocoonstack.io/webhook-"])
      .then(({ code, stderr }) => assert.equal(code, 0, stderr)),
  );

  for (const key of [
    annotation.vmName,
    annotation.forkFrom,
    annotation.image,
    annotation.vmId,
    annotation.mode,
    annotation.managed,
    annotation.snapshotDigest,
    annotation.restoreFromHibernate,
    legacyAnnotation.vmName,
    legacyAnnotation.forkFrom,
    legacyAnnotation.image,
  ])
    test(`who may edit the pod cannot write ${key}`, async () => {
      const before = await readAnnotations(name);
      await refused(alice.run(["annotate", "--overwrite", "pod", name, `${key}=vk-bob-box`]), policyText);
      assert.deepEqual(await readAnnotations(name), before);
    });

  test("an identity key cannot be removed either, alone or with all annotations", async () => {
    await refused(alice.run(["annotate", "pod", name, `${annotation.vmName}-`]), policyText);
    const patch = JSON.stringify({ metadata: { annotations: null } });
    await refused(alice.run(["patch", "pod", name, "--type=merge", "-p", patch]), policyText);
    assert.equal((await readAnnotations(name))[annotation.vmName], vmName);
  });

  test("the rights of a whole namespace are not enough", async () => {
    const owner = await addTenant(world.cluster, alice.namespace, "cluster-admin");
    await refused(owner.run(["annotate", "--overwrite", "pod", name, `${annotation.vmName}=x`]), policyText);
  });

  test("neither the status nor a binding of the pod is a way around", async () => {
    const owner = await addTenant(world.cluster, "carol", "cluster-admin");
    await succeed(world.cluster.kubectl(["label", "namespace", "carol", "cocoonstack.io/webhook=ignore"]));
    const annotations = { [annotation.vmName]: "vk-carol-box" };
    await apply(world.cluster, {
      ...machinePod("carol", "box", { nodeSelector: { none: "such" } }),
      metadata: { namespace: "carol", name: "box", annotations },
    });
    const patch = JSON.stringify({ metadata: { annotations: { [annotation.vmName]: "vk-bob-box" } } });
    const flags = ["--subresource=status", "--type=merge", "-p", patch];
    await refused(owner.run(["patch", "pod", "box", ...flags]), policyText);
    const binding = {
      apiVersion: "v1",
      kind: "Binding",
      metadata: { name: "box", namespace: "carol", annotations: { [annotation.forkFrom]: "vk-bob-box" } },
      target: { apiVersion: "v1", kind: "Node", name: "node-a" },
    };
    await refused(
      owner.run(["create", "--raw", "/api/v1/namespaces/carol/pods/box/binding", "-f", "-"], binding),
      /machine-identity.cocoonstack.io/,
    );
    const pod = await world.client.get(pods, { namespace: "carol", name: "box" }, { signal });
    assert.equal(pod.metadata.annotations?.[annotation.vmName], "vk-carol-box");
    assert.equal(pod.metadata.annotations?.[annotation.forkFrom], undefined);
  });

  test("what belongs to the user stays editable: sleep, labels, notes", async () => {
    await succeed(alice.run(["annotate", "pod", name, `${annotation.hibernate}=true`, "note=mine"]));
    await succeed(alice.run(["annotate", "pod", name, `${annotation.hibernate}-`]));
    await succeed(alice.run(["label", "pod", name, "team=blue"]));
  });

  for (const [who, identity] of [
    ["the operator", { user: operator }],
    ["vk-cocoon", { user: kubelet }],
    ["a legacy operator", { user: "system:serviceaccount:kube-system:cocoon-operator" }],
    ["a kubelet with a node's certificate", { user: "system:node:host", groups: ["system:nodes"] }],
  ] as const)
    test(`${who} writes identity`, async () => {
      await succeed(grantPods(identity));
      const id = `id-${who.replaceAll(/\W/g, "-")}`;
      const args = ["annotate", "--overwrite", "pod", name, `${annotation.vmId}=${id}`];
      await succeed(runAs(world.cluster, { ...identity, namespace: alice.namespace }, args));
      assert.equal((await readAnnotations(name))[annotation.vmId], id);
    });
});

/** Rights on pods alone, which the manifests of the other parts would give. */
let granted = 0;
function grantPods(identity: { readonly user: string; readonly groups?: readonly string[] }) {
  granted += 1;
  const subject = identity.groups ? `--group=${identity.groups[0]}` : `--user=${identity.user}`;
  return world.cluster.kubectl([
    "create",
    "clusterrolebinding",
    `pods-${granted}`,
    "--clusterrole=edit",
    subject,
  ]);
}

describe("with the webhook", () => {
  before(async () => {
    await world.addReplica("one");
  });

  const grant = (sets?: readonly string[]) => ({
    apiVersion: "cocoonset.cocoonstack.io/v1",
    kind: "CocoonSnapshotGrant",
    metadata: { name: "for-alice", namespace: "bob" },
    spec: { namespaces: ["alice"], ...(sets ? { sets } : {}) },
  });

  const podWith = (name: string, annotations: Readonly<Record<string, string>>, image = "team/base:1") => ({
    ...machinePod("alice", name, {
      tolerations: [{ key: hostTaint.key, operator: "Exists" }],
      containers: [{ name: "agent", image }],
    }),
    metadata: { name, annotations },
  });

  const setWith = (name: string, spec: object) => ({
    apiVersion: "cocoonset.cocoonstack.io/v1",
    kind: "CocoonSet",
    metadata: { name },
    spec,
  });

  const dryRun = ["create", "--dry-run=server", "-f", "-"];

  /** Every way in, and the object that takes it. */
  const waysIn: Readonly<Record<string, object>> = {
    "a pod's image annotation": podWith("w1", { [annotation.image]: "vk-bob-demo-0:hibernate" }),
    "a pod's legacy image": podWith("w2", { [legacyAnnotation.image]: "vk-bob-demo-0" }),
    "a pod's container image": podWith("w3", {}, "vk-bob-demo-0:latest"),
    "a pod's fork-from": podWith("w4", { [annotation.forkFrom]: "vk-bob-demo-0" }),
    "a pod's legacy fork-from": podWith("w5", { [legacyAnnotation.forkFrom]: "vk-bob-demo-0" }),
    "a set's image": setWith("s1", { agent: { image: "vk-bob-demo-0:hibernate" } }),
    "a set's from": setWith("s2", {
      agent: { image: "team/base:1", from: { namespace: "bob", set: "demo", slot: 0, tag: "latest" } },
    }),
    "a toolbox's image": setWith("s3", {
      agent: { image: "team/base:1" },
      toolboxes: [{ name: "tool", mode: "clone", image: "vk-bob-demo-0:latest" }],
    }),
  };

  for (const [way, object] of Object.entries(waysIn))
    test(`${way} does not reach another namespace's machine without a grant`, async (t) => {
      t.after(() =>
        succeed(
          world.cluster.kubectl([
            "-n",
            "bob",
            "delete",
            "--all",
            "cocoonsnapshotgrants.cocoonset.cocoonstack.io",
          ]),
        ),
      );
      await refused(alice.run(dryRun, object), /CocoonSnapshotGrant/);
      await apply(world.cluster, grant());
      await succeed(alice.run(dryRun, object));
      await apply(world.cluster, grant(["other"]));
      await refused(alice.run(dryRun, object), /CocoonSnapshotGrant/);
      await apply(world.cluster, grant(["demo"]));
      await succeed(alice.run(dryRun, object));
    });

  test("a namespace whose name begins like another one does not own its machines", async () => {
    await addTenant(world.cluster, "alice-two");
    const object = podWith("w6", { [annotation.image]: "vk-alice-two-demo-0:latest" });
    await refused(alice.run(dryRun, object), /CocoonSnapshotGrant of namespace alice-two/);
    await succeed(alice.run(dryRun, podWith("w7", { [annotation.image]: "vk-alice-demo-0:latest" })));
  });

  test("a name that the user wrote is replaced by the reserved one, a copied id is dropped", async () => {
    const written = { [annotation.vmName]: "vk-bob-demo-0", [legacyAnnotation.vmName]: "vk-bob-demo-0" };
    await succeed(
      alice.run(["create", "-f", "-"], podWith("named", { ...written, [annotation.vmId]: "vm-1" })),
    );
    const found = await readAnnotations("named");
    assert.equal(found[annotation.vmName], "vk-alice-named");
    assert.equal(found[legacyAnnotation.vmName], "vk-alice-named");
    assert.equal(found[annotation.vmId], undefined);
  });

  test("a pod without the toleration carries no machine's name", async () => {
    const { spec } = podWith("bare", {}) as { spec?: { containers: unknown } };
    const pod = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name: "bare", annotations: { [annotation.vmName]: "vk-alice-box" } },
      spec: { containers: spec?.containers, nodeName: "node-a" },
    };
    await refused(alice.run(dryRun, pod), /toleration virtual-kubelet.io\/provider/);
  });

  test("a pod that says it belongs to a set has a name of that set", async () => {
    await succeed(alice.run(["create", "-f", "-"], setWith("mine", { agent: { image: "team/base:1" } })));
    const uid = await succeed(
      alice.run(["get", "cocoonset.cocoonset.cocoonstack.io", "mine", "-o", "jsonpath={.metadata.uid}"]),
    );
    const owned = (vmName: string) => ({
      ...podWith("mine-0", { [annotation.vmName]: vmName }),
      metadata: {
        name: "mine-0",
        annotations: { [annotation.vmName]: vmName },
        ownerReferences: [
          { apiVersion: "cocoonset.cocoonstack.io/v1", kind: "CocoonSet", name: "mine", uid },
        ],
      },
    });
    await refused(alice.run(dryRun, owned("vk-gone-box-0")), /not a machine of CocoonSet alice\/mine/);
    await refused(alice.run(dryRun, owned("vk-alice-other-0")), /not a machine of CocoonSet alice\/mine/);
    await succeed(alice.run(dryRun, owned("vk-alice-mine-0")));
  });

  test("the pods of a Deployment do not reach another namespace's machine", async () => {
    const deployment = buildDeployment(alice.namespace, {
      name: "thief",
      replicas: 1,
      spec: { containers: [{ name: "agent", image: "vk-bob-demo-0:hibernate" }] },
    });
    await succeed(alice.run(["create", "-f", "-"], deployment));
    await eventually(
      async () => {
        const events = await succeed(alice.run(["get", "events", "-o", "jsonpath={.items[*].message}"]));
        assert.match(events, /CocoonSnapshotGrant/);
      },
      { timeoutMs: 60_000 },
    );
    const found = await world.client.list(pods, {
      namespace: alice.namespace,
      labelSelector: "app=thief",
      signal,
    });
    assert.deepEqual(found.items, []);
  });
});
