/** The rules for CocoonSets and CocoonHibernations, asked over HTTPS. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, test } from "node:test";
import { eventually } from "@cocoon/testkit";
import { noSnapshots } from "@cocoon/webhook";
import { openBorder, type Border } from "./border.ts";

let border: Border;
const stack = new AsyncDisposableStack();
const ns = `crs-${randomBytes(3).toString("hex")}`;

before(async () => {
  border = stack.use(await openBorder());
  await border.cluster.kubectl(["create", "namespace", ns]);
});
after(async () => {
  await border.cluster.kubectl(["delete", "namespace", ns, "--wait=false"]);
  await stack.disposeAsync();
});

const agent = { image: "team/base:1" };
const set = (spec: unknown, name = "demo") => ({ metadata: { namespace: ns, name }, spec });

async function findRefusal(spec: unknown, name?: string): Promise<string | undefined> {
  const object = set(spec, name);
  const response = await border.ask("/validate-cocoonset", { namespace: ns, object });
  return response.allowed ? undefined : (response.status?.message ?? "");
}

const prefix = "cocoon-webhook: invalid CocoonSet spec: ";

/** Every rule alone: what breaks it, and the whole text. */
const violations: readonly (readonly [what: string, spec: object, message: string])[] = [
  ["no agent", {}, "spec.agent.image is required"],
  ["no image", { agent: { image: "" } }, "spec.agent.image is required"],
  ["replicas", { agent: { ...agent, replicas: -1 } }, "spec.agent.replicas must be >= 0, got -1"],
  ["mode", { agent: { ...agent, mode: "boot" } }, 'spec.agent.mode must be clone or run, got "boot"'],
  [
    "os",
    { agent: { ...agent, os: "plan9" } },
    'spec.agent.os must be linux, windows, android, or macos, got "plan9"',
  ],
  [
    "connType",
    { agent: { ...agent, connType: "tty" } },
    'spec.agent.connType must be ssh, rdp, vnc, or adb, got "tty"',
  ],
  [
    "backend",
    { agent: { ...agent, backend: "xen" } },
    'spec.agent.backend must be cloud-hypervisor, firecracker, or qemu, got "xen"',
  ],
  [
    "windows on firecracker",
    { agent: { ...agent, mode: "run", backend: "firecracker", os: "windows" } },
    "spec.agent: firecracker does not support Windows guests",
  ],
  [
    "a URL on firecracker",
    { agent: { image: "https://x/y.img", mode: "run", backend: "firecracker" } },
    'spec.agent: firecracker requires an OCI image, cloudimg URLs are not supported (got "https://x/y.img")',
  ],
  [
    "clone on firecracker",
    { agent: { ...agent, backend: "firecracker" } },
    "spec.agent: firecracker does not support clone mode, use mode=run instead",
  ],
  [
    "a full reference in mode clone",
    { agent: { image: "registry:5000/u:1" } },
    'spec.agent.image "registry:5000/u:1" must be repo[:tag] when mode is clone (no registry port or digest)',
  ],
  [
    "storage",
    { agent: { ...agent, storage: "-1Gi" } },
    'spec.agent.storage must be a quantity above 0, for example 20Gi, got "-1Gi"',
  ],
  [
    "probe port",
    { agent: { ...agent, probePort: 70_000 } },
    "spec.agent.probePort must be between 0 and 65535, got 70000",
  ],
  ["a nameless toolbox", { agent, toolboxes: [{}] }, "spec.toolboxes[0].name is required"],
  [
    "a toolbox's name",
    { agent, toolboxes: [{ name: "A_b", image: "i" }] },
    "spec.toolboxes[0].name \"A_b\" must match RFC 1123 label: must consist of lower case letters, digits and '-', and must start and end with a letter or digit",
  ],
  [
    "a numeric name",
    { agent, toolboxes: [{ name: "007", image: "i" }] },
    'spec.toolboxes[0].name "007" must not be purely numeric (conflicts with agent slot naming)',
  ],
  [
    "a name twice",
    { agent, toolboxes: ["t", "t"].map((name) => ({ name, image: "i" })) },
    'spec.toolboxes[1].name "t" duplicates an earlier toolbox',
  ],
  [
    "a toolbox's mode",
    { agent, toolboxes: [{ name: "t", image: "i", mode: "warp" }] },
    'spec.toolboxes[0].mode must be run, clone, or static, got "warp"',
  ],
  [
    "a static one without address",
    { agent, toolboxes: [{ name: "t", mode: "static" }] },
    "spec.toolboxes[0].staticIP is required when mode=static; spec.toolboxes[0].staticVMID is required when mode=static",
  ],
  [
    "a static one with a bad address",
    { agent, toolboxes: [{ name: "t", mode: "static", staticIP: "10.0.0", staticVMID: "v", connType: "x" }] },
    'spec.toolboxes[0].staticIP "10.0.0" must be an IP address; spec.toolboxes[0].connType must be ssh, rdp, vnc, or adb, got "x"',
  ],
  [
    "a toolbox without image",
    { agent, toolboxes: [{ name: "t" }] },
    "spec.toolboxes[0].image is required when mode is run or clone",
  ],
  [
    "another backend",
    { agent, toolboxes: [{ name: "t", image: "i", backend: "firecracker" }] },
    'spec.toolboxes[0].backend "firecracker" must match spec.agent.backend "cloud-hypervisor"',
  ],
  [
    "snapshotPolicy",
    { agent, snapshotPolicy: "sometimes" },
    'spec.snapshotPolicy must be always, main-only, or never, got "sometimes"',
  ],
  [
    "hibernatePolicy",
    { agent, hibernatePolicy: "relase" },
    'spec.hibernatePolicy must be retain or release, got "relase"',
  ],
  [
    "release with sub-agents",
    { agent: { ...agent, replicas: 1 }, hibernatePolicy: "release" },
    "hibernatePolicy=release requires agent.replicas=0 and no toolboxes",
  ],
];

describe("/validate-cocoonset", () => {
  for (const [what, spec, message] of violations)
    test(`refuses: ${what}`, async () => assert.equal(await findRefusal(spec), `${prefix}${message}`));

  test("all violations are told at once, with their fields", async () => {
    const spec = { agent: { image: "registry:5000/u:1", backend: "firecracker" }, hibernatePolicy: "relase" };
    const response = await border.ask("/validate-cocoonset", { namespace: ns, object: set(spec) });
    assert.equal(
      response.status?.message,
      `${prefix}spec.agent: firecracker does not support clone mode, use mode=run instead; spec.agent.image "registry:5000/u:1" must be repo[:tag] when mode is clone (no registry port or digest); spec.hibernatePolicy must be retain or release, got "relase"`,
    );
    const { details } = response.status as unknown as { details: { causes: { field: string }[] } };
    assert.deepEqual(
      details.causes.map(({ field }) => field),
      ["spec.agent.mode", "spec.agent.image", "spec.hibernatePolicy"],
    );
  });

  test("what is right passes, with the warnings that there are", async () => {
    const spec = {
      agent: { image: "ghcr.io/a/b:1", replicas: 2, storage: "60Gi" },
      nodePool: "nowhere",
      nodeName: "no-such-node",
      toolboxes: [
        { name: "browser", image: "registry.example/desktop:24", connType: "rdp" },
        { name: "legacy", mode: "static", staticIP: "10.20.0.9", staticVMID: "q" },
        { name: "late", mode: "static", awaitAddress: true },
      ],
    };
    const response = await border.ask("/validate-cocoonset", { namespace: ns, object: set(spec) });
    assert.equal(response.allowed, true, response.status?.message ?? "");
    assert.deepEqual(response.warnings, [
      'spec.nodePool: no node is in pool "nowhere" now',
      'spec.nodeName: there is no node "no-such-node" now',
    ]);
  });

  test("a snapshot that the registry surely does not have is a warning, once", async () => {
    const snapshots = { ...noSnapshots, isAbsent: () => Promise.resolve(true) };
    await using asked = await openBorder({ options: { snapshots } });
    const object = set({ agent, nodePool: "nowhere" });
    const created = await asked.ask("/validate-cocoonset", { namespace: ns, object });
    assert.equal(created.allowed, true, created.status?.message ?? "");
    assert.match(
      created.warnings?.[1] ?? "",
      /^spec\.agent\.image: the registry has no snapshot "team\/base:1" now/,
    );
    const scaled = await asked.ask("/validate-cocoonset", {
      operation: "UPDATE",
      namespace: ns,
      oldObject: object,
      object: set({ agent: { ...agent, replicas: 1 }, nodePool: "nowhere" }),
    });
    assert.equal(scaled.warnings?.length, 1, "the image was there before");
  });

  test("other operations, undecodable objects and unchanged specs", async () => {
    const deletion = await border.ask("/validate-cocoonset", { operation: "DELETE" });
    assert.equal(deletion.allowed, true);
    assert.equal(await border.counted("validate_cocoonset", "skipped", "operation"), 1);
    const broken = await border.ask("/validate-cocoonset", { object: set({ agent: { image: 5 } }) });
    assert.match(broken.status?.message ?? "", /^decode CocoonSet: spec\.agent\.image: /);
    assert.equal(await border.counted("validate_cocoonset", "error", "decode"), 1);
    const bad = { agent: { image: "", storage: "1024Mi" } };
    const same = await border.ask("/validate-cocoonset", {
      operation: "UPDATE",
      oldObject: set({ agent: { image: "", storage: "1Gi", mode: null } }),
      object: { ...set(bad), metadata: { name: "demo", finalizers: [] } },
    });
    assert.equal(same.allowed, true, same.status?.message ?? "");
    assert.equal(await border.counted("validate_cocoonset", "skipped", "no_change"), 1);
    const changed = await border.ask("/validate-cocoonset", {
      operation: "UPDATE",
      oldObject: set({ agent, snapshotCompatibilityClass: "a" }),
      object: set({ agent, snapshotCompatibilityClass: "b" }),
    });
    assert.match(changed.status?.message ?? "", /snapshotCompatibilityClass is immutable once set/);
    const newer = await border.ask("/validate-cocoonset", {
      operation: "UPDATE",
      namespace: ns,
      oldObject: set({ agent: { image: "" }, brandNew: 1 }),
      object: set({ agent: { image: "" }, brandNew: 2 }),
    });
    assert.equal(newer.allowed, true, "what the stored set breaks already is not held against it");
    const counted = await border.counted("validate_cocoonset", "skipped", "no_change");
    assert.equal(counted, 1, "a field that we do not know is a change all the same");
  });

  test("names that are too long or mean another set's machines are refused", async () => {
    assert.match((await findRefusal({ agent }, "x".repeat(64))) ?? "", /no more than 63 characters/);
    const made = await border.cluster.kubectl(["create", "-f", "-"], {
      input: JSON.stringify({
        apiVersion: "cocoonset.cocoonstack.io/v1",
        kind: "CocoonSet",
        ...set({ agent }, "crew-x"),
      }),
    });
    assert.equal(made.code, 0, made.stderr);
    await eventually(async () => {
      const message = await findRefusal({ agent, toolboxes: [{ name: "x-0", image: "i" }] }, "crew");
      assert.match(message ?? "", new RegExp(`"vk-${ns}-crew-x-0" would belong to both`));
    });
    assert.equal(
      await findRefusal({ agent: { ...agent, replicas: 3 } }, "crew-x"),
      undefined,
      "not with itself",
    );
  });
});

describe("/validate-cocoonhibernation", () => {
  const path = "/validate-cocoonhibernation";
  const readSleep = (pod: string, name = pod) => ({
    namespace: ns,
    object: { metadata: { namespace: ns, name }, spec: { podRef: { name: pod }, desire: "Hibernate" } },
  });

  test("only a creation is judged", async () => {
    assert.equal((await border.ask(path, { ...readSleep("a", "b"), operation: "UPDATE" })).allowed, true);
    assert.equal(await border.counted("validate_cocoonhibernation", "skipped", "operation"), 1);
  });

  test("an object that cannot be read is refused", async () => {
    const response = await border.ask(path, { object: { metadata: { name: "a" }, spec: { podRef: "a" } } });
    assert.match(response.status?.message ?? "", /^decode CocoonHibernation: spec\.podRef: /);
    assert.equal(await border.counted("validate_cocoonhibernation", "error", "decode"), 1);
  });

  test("it is named like its pod", async () => {
    const response = await border.ask(path, readSleep("p", "n"));
    assert.equal(
      response.status?.message,
      'cocoon-webhook: metadata.name "n" must equal spec.podRef.name "p" (one CocoonHibernation per pod, named after it)',
    );
    assert.equal((await border.ask(path, { object: { metadata: { name: "n" } } })).allowed, false);
  });

  test("one per pod, also while it goes", async () => {
    assert.equal((await border.ask(path, readSleep("crew-0"))).allowed, true);
    const kubectl = (args: readonly string[], input = "") =>
      border.cluster.kubectl(["-n", ns, ...args], { input });
    const object = {
      apiVersion: "cocoonset.cocoonstack.io/v1",
      kind: "CocoonHibernation",
      metadata: { name: "crew-0", finalizers: ["example.com/hold"] },
      spec: { podRef: { name: "crew-0" }, desire: "Hibernate" },
    };
    const made = await kubectl(["create", "-f", "-"], JSON.stringify(object));
    assert.equal(made.code, 0, made.stderr);
    await eventually(async () => {
      const { status } = await border.ask(path, readSleep("crew-0"));
      assert.equal(
        status?.message,
        'cocoon-webhook: pod "crew-0" already has a live CocoonHibernation "crew-0"; flip its spec.desire instead of creating a second CR',
      );
    });
    const kind = "cocoonhibernations.cocoonset.cocoonstack.io";
    await kubectl(["delete", kind, "crew-0", "--wait=false"]);
    await eventually(async () => {
      const { status } = await border.ask(path, readSleep("crew-0"));
      assert.equal(
        status?.message,
        'cocoon-webhook: pod "crew-0"\'s CocoonHibernation "crew-0" is still terminating; retry after its cleanup finishes',
      );
    });
    await kubectl(["patch", kind, "crew-0", "--type=merge", "-p", '{"metadata":{"finalizers":null}}']);
  });
});
