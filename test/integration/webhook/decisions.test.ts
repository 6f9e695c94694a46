/** Every line of the decision tables for pods, in both modes, asked over HTTPS. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { annotation, hostTaint } from "@cocoon/contract";
import { openBorder, type Border, type Response } from "./border.ts";
import { table } from "./decision-table.ts";

let sticky: Border;
let gate: Border;
const stack = new AsyncDisposableStack();
/** Of this run alone: the control plane is shared. */
const ns = `dec-${randomBytes(3).toString("hex")}`;

before(async () => {
  sticky = stack.use(await openBorder());
  gate = stack.use(await openBorder({ rules: { mode: "gate", keepOff: true } }));
  await sticky.cluster.kubectl(["create", "namespace", ns]);
});
after(async () => {
  await sticky.cluster.kubectl(["delete", "namespace", ns, "--wait=false"]);
  await stack.disposeAsync();
});

const podKind = { group: "", version: "v1", kind: "Pod" };
const tolerations = [{ key: hostTaint.key, operator: "Exists" }];
const containers = [{ name: "c", image: "i" }];
const machine = (name: string, metadata: object = {}, spec: object = {}) => ({
  kind: podKind,
  namespace: ns,
  name,
  object: { metadata: { name, namespace: ns, ...metadata }, spec: { tolerations, containers, ...spec } },
});

function readPatch({ patch }: Response): { op: string; path: string; value: unknown }[] {
  return patch === undefined
    ? []
    : (JSON.parse(Buffer.from(patch, "base64").toString()) as ReturnType<typeof readPatch>);
}

function valueAt(response: Response, path: string): unknown {
  return readPatch(response).find((operation) => operation.path === path)?.value;
}

const namePath = "/metadata/annotations/vm.cocoonstack.io~1name";

describe("/mutate in mode sticky", () => {
  table("/mutate", "mutate", {
    border: () => sticky,
    rows: [
      {
        name: "another kind is passed over",
        fields: { kind: { kind: "Service" }, object: {} },
        allowed: true,
        result: "skipped",
        reason: "kind",
      },
      {
        name: "an empty request is passed over",
        fields: { operation: "" },
        allowed: true,
        result: "skipped",
        reason: "kind",
      },
      {
        name: "an object that cannot be read is let through",
        fields: { kind: podKind, object: { metadata: {}, spec: { tolerations: "all" } } },
        allowed: true,
        result: "skipped",
        reason: "decode",
      },
      {
        name: "a pod without the toleration is no machine",
        fields: { kind: podKind, object: { metadata: {}, spec: { tolerations: [{ operator: "Exists" }] } } },
        allowed: true,
        result: "skipped",
        reason: "not_cocoon",
        check: (response) => assert.equal(response.patch, undefined),
      },
      {
        name: "a bare pod gets its name, in the documented order of operations",
        fields: machine("box"),
        allowed: true,
        result: "allow",
        reason: "",
        check: (response) => {
          const [first, second] = readPatch(response);
          assert.deepEqual(first, { op: "add", path: "/metadata/annotations", value: {} });
          assert.deepEqual(second, { op: "add", path: namePath, value: `vk-${ns}-box` });
        },
      },
      {
        name: "annotations that are there are kept, a name from the client is not",
        fields: machine("kept", { annotations: { note: "x", [annotation.vmName]: "mine" } }),
        allowed: true,
        result: "allow",
        reason: "",
        check: (response) => {
          assert.ok(!readPatch(response).some(({ path }) => path === "/metadata/annotations"));
          assert.equal(valueAt(response, namePath), `vk-${ns}-kept`);
        },
      },
      {
        name: "an empty pool leaves the node to the scheduler",
        fields: machine("lone", {}, { nodeSelector: { "cocoonstack.io/pool": "nobody" } }),
        allowed: true,
        result: "allow",
        reason: "",
        check: (response) => {
          assert.equal(valueAt(response, namePath), `vk-${ns}-lone`);
          assert.equal(valueAt(response, "/spec/nodeName"), undefined);
        },
      },
      {
        name: "a pod that names its node keeps it, and gets its name",
        fields: machine("placed", {}, { nodeName: "by-hand" }),
        allowed: true,
        result: "allow",
        reason: "",
        check: (response) => {
          assert.equal(valueAt(response, namePath), `vk-${ns}-placed`);
          assert.equal(valueAt(response, "/spec/nodeName"), undefined);
          assert.equal(valueAt(response, "/spec/affinity"), undefined);
        },
      },
      {
        name: "a pool that cannot be a name is refused",
        fields: machine("pooled", { annotations: { "cocoonstack.io/pool": "Not_A/Name" } }),
        allowed: false,
        result: "error",
        reason: "affinity",
        message: /pool "Not_A\/Name" must be/,
      },
      {
        name: "a machine's name that would be too long is refused",
        fields: machine("x".repeat(60)),
        allowed: false,
        result: "error",
        reason: "affinity",
        message: /limit is 63/,
      },
      {
        name: "a pod without name and owner is refused",
        fields: {
          kind: podKind,
          namespace: ns,
          object: { metadata: { generateName: "x-" }, spec: { tolerations, containers } },
        },
        allowed: false,
        result: "error",
        reason: "affinity",
        message: /needs a name/,
      },
      {
        name: "a set that is not visible yet: the creator tries again",
        fields: machine("set-0", {
          ownerReferences: [
            { apiVersion: "cocoonset.cocoonstack.io/v1", kind: "CocoonSet", name: "set", uid: "u" },
          ],
        }),
        allowed: false,
        result: "deny",
        reason: "",
        message: /does not exist yet/,
        check: (response) =>
          assert.deepEqual([response.status?.code, response.status?.reason], [409, "Conflict"]),
      },
      {
        name: "a pod of an operator of the older API",
        fields: machine("old-0", {
          annotations: { "cocoon.cis/vm-name": `vk-${ns}-old-0` },
          ownerReferences: [{ apiVersion: "cocoon.cis/v1alpha1", kind: "CocoonSet", name: "old", uid: "u" }],
        }),
        allowed: true,
        result: "allow",
        reason: "",
      },
      {
        name: "an owner of the older API does not give another namespace's name",
        fields: machine("old-0", {
          annotations: { "cocoon.cis/vm-name": "vk-elsewhere-old-0" },
          ownerReferences: [{ apiVersion: "cocoon.cis/v1alpha1", kind: "CocoonSet", name: "old", uid: "u" }],
        }),
        allowed: false,
        result: "deny",
        reason: "",
        message: /is not a machine of CocoonSet/,
      },
      {
        name: "annotations that are null",
        fields: machine("nulls", { annotations: null, labels: null, ownerReferences: null }),
        allowed: true,
        result: "allow",
        reason: "",
        check: (response) => assert.equal(valueAt(response, namePath), `vk-${ns}-nulls`),
      },
      {
        name: "the toleration cannot be added later",
        fields: {
          ...machine("late"),
          operation: "UPDATE",
          oldObject: { metadata: {}, spec: { containers } },
        },
        allowed: false,
        result: "deny",
        reason: "",
        message: /cannot be added to an existing pod/,
      },
      {
        name: "an update that leaves the toleration alone passes",
        fields: {
          ...machine("late"),
          operation: "UPDATE",
          oldObject: { metadata: {}, spec: { containers, tolerations } },
        },
        allowed: true,
        result: "allow",
        reason: "",
      },
    ],
  });

  test("nameless replicas get a slot each, the same request the same answer, and a named one its own", async () => {
    const replica = (uid: string, metadata: object = {}) =>
      sticky.ask("/mutate", {
        uid,
        kind: podKind,
        namespace: ns,
        object: {
          metadata: {
            generateName: "web-6f5d-",
            labels: { "pod-template-hash": "6f5d" },
            ownerReferences: [
              { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-6f5d", uid: "r", controller: true },
            ],
            ...metadata,
          },
          spec: { tolerations, containers },
        },
      });
    const names = await Promise.all(
      ["u-00000001", "u-00000002", "u-00000003"].map(async (uid) => valueAt(await replica(uid), namePath)),
    );
    assert.deepEqual(names.map(String).toSorted(), [`vk-${ns}-web-0`, `vk-${ns}-web-1`, `vk-${ns}-web-2`]);
    assert.equal(valueAt(await replica("u-00000002"), namePath), names[1], "asked again");
    const cost = "/metadata/annotations/controller.kubernetes.io~1pod-deletion-cost";
    const named = await replica("u-00000004", { name: "web-named" });
    assert.equal(valueAt(named, namePath), `vk-${ns}-web-3`);
    assert.equal(valueAt(named, cost), "-3");
  });

  test("what cannot be reserved is admitted unchanged with a warning, where that is wanted", async () => {
    await using lenient = await openBorder({ rules: { onFailure: "admit" } });
    const response = await lenient.ask("/mutate", machine("x".repeat(60)));
    assert.equal(response.allowed, true);
    assert.equal(response.patch, undefined);
    assert.match(response.warnings?.[0] ?? "", /no machine could be reserved/);
  });
});

describe("/mutate in mode gate", () => {
  const operator = { username: "system:serviceaccount:cocoon-system:cocoon-operator" };
  const owned = (owner: object) =>
    machine("crew-0", {
      ownerReferences: [
        { apiVersion: "cocoonset.cocoonstack.io/v1", kind: "CocoonSet", name: "crew", uid: "u", ...owner },
      ],
    });
  table("/mutate", "mutate", {
    border: () => gate,
    rows: [
      {
        name: "a pod without a set is refused",
        fields: machine("box"),
        allowed: false,
        result: "deny",
        reason: "",
        message: /^cocoon pods must be managed by a CocoonSet$/,
      },
      {
        name: "a nameless owner is none",
        fields: owned({ name: "" }),
        allowed: false,
        result: "deny",
        reason: "",
        message: /^cocoon pods must be managed by a CocoonSet$/,
      },
      {
        name: "another creator is refused",
        fields: owned({}),
        allowed: false,
        result: "deny",
        reason: "",
        message: /^cocoon pods must be created by the CocoonSet controller, got user "alice"$/,
      },
      {
        name: "a set of another group is none",
        fields: { ...owned({ apiVersion: "other.example.com/v1" }), userInfo: operator },
        allowed: false,
        result: "deny",
        reason: "",
        message: /not of cocoonset\.cocoonstack\.io/,
      },
      {
        name: "a set that does not exist is none",
        fields: { ...owned({}), userInfo: operator },
        allowed: false,
        result: "deny",
        reason: "",
        message: /does not exist/,
      },
      {
        name: "a pod that tolerates everything is kept off VM hosts",
        fields: {
          kind: podKind,
          namespace: ns,
          object: { metadata: {}, spec: { containers, tolerations: [{ operator: "Exists" }] } },
        },
        allowed: true,
        result: "allow",
        reason: "",
        check: (response) =>
          assert.match(
            JSON.stringify(valueAt(response, "/spec/affinity")),
            /node-role\.kubernetes\.io\/cocoon-vm.*DoesNotExist/,
          ),
      },
    ],
  });

  test("the operator's pod of a set that exists is let in; one with another uid is not", async () => {
    const made = await gate.cluster.kubectl(["create", "-f", "-"], {
      input: JSON.stringify({
        apiVersion: "cocoonset.cocoonstack.io/v1",
        kind: "CocoonSet",
        metadata: { namespace: ns, name: "crew" },
        spec: { agent: { image: "team/base:1" } },
      }),
    });
    assert.equal(made.code, 0, made.stderr);
    const { stdout: uid } = await gate.cluster.kubectl([
      "-n",
      ns,
      "get",
      "cocoonsets.cocoonset.cocoonstack.io",
      "crew",
      "-o",
      "jsonpath={.metadata.uid}",
    ]);
    const right = await gate.ask("/mutate", { ...owned({ uid }), userInfo: operator });
    assert.equal(right.allowed, true, right.status?.message ?? "");
    assert.equal(right.patch, undefined);
    const wrong = await gate.ask("/mutate", { ...owned({ uid: "another" }), userInfo: operator });
    assert.equal(wrong.allowed, false);
  });
});
