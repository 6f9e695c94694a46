/** What commands understand of their arguments and files. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readCocoonSetSpec } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import type { KubeEvent } from "@cocoon/kube";
import { readDryRun, readSets } from "./create.ts";
import { eventTable, selectEvents } from "./events.ts";
import { readGetRequest } from "./get.ts";
import { lookAtHibernation } from "./hibernate.ts";
import { readReplicas } from "./scale.ts";
import { setFromFlags } from "../cluster/set-from-flags.ts";

const isUsage = (error: unknown) => error instanceof Fault && error.code === "badRequest";

test("get takes a kind, a name, or both", () => {
  assert.deepEqual(readGetRequest([]), { sets: true, machines: true });
  assert.deepEqual(readGetRequest(["demo"]), { sets: true, machines: true, name: "demo" });
  assert.deepEqual(readGetRequest(["cset", "demo"]), { sets: true, machines: false, name: "demo" });
  assert.deepEqual(readGetRequest(["vms"]), { sets: false, machines: true });
  assert.throws(() => readGetRequest(["services", "x"]), isUsage);
  assert.throws(() => readGetRequest(["vms", "a", "b"]), isUsage);
});

test("flags make a set that the contract reads", () => {
  const set = setFromFlags("web", {
    image: "team/base:v1",
    cpu: "2",
    memory: "2Gi",
    storage: "20Gi",
    replicas: "3",
    toolbox: ["tools=debian:12"],
    snapshotPolicy: "main-only",
    probePort: "22",
    suspended: true,
  });
  const spec = readCocoonSetSpec(set.spec);
  assert.equal(spec.agent.mode, "clone");
  assert.equal(spec.agent.replicas, 3);
  assert.equal(spec.agent.probePort, 22);
  assert.deepEqual(spec.agent.resources, {
    requests: { cpu: "2", memory: "2Gi" },
    limits: { cpu: "2", memory: "2Gi" },
  });
  assert.deepEqual(
    spec.toolboxes?.map(({ name, image, mode, storage }) => [name, image, mode, storage]),
    [["tools", "debian:12", "run", "20Gi"]],
  );
  assert.equal(spec.suspend, true);
  assert.equal(
    readCocoonSetSpec(setFromFlags("x", { image: "https://example/disk.qcow2" }).spec).agent.mode,
    "run",
  );
});

test("a flag that cannot be meant is refused by its name, with what can", () => {
  const cases: readonly [object, RegExp][] = [
    [{}, /--image is missing/],
    [{ image: "x", memory: "much" }, /--memory much: write an amount such as 512Mi or 4Gi/],
    [{ image: "x", cpu: "0" }, /--cpu 0: write an amount such as 2 or 500m/],
    [
      { image: "x", snapshotPolicy: "sometimes" },
      /--snapshot-policy sometimes: use always, main-only, never/,
    ],
    [{ image: "x", replicas: "-1" }, /--replicas -1: write a whole number/],
    [{ image: "x", toolbox: ["tools"] }, /--toolbox tools: write name=image/],
    [{ image: "x", probePort: "99999" }, /--probe-port 99999 is not a port number/],
  ];
  for (const [flags, message] of cases)
    assert.throws(
      () => setFromFlags("web", flags),
      (error) => isUsage(error) && message.test(String(error)),
      String(message),
    );
  assert.throws(() => readReplicas(undefined, ""), /how many\?/);
  assert.throws(() => readDryRun("maybe"), isUsage);
  assert.equal(readDryRun(true), "client");
});

test("files hold CocoonSets and nothing else", async () => {
  const set = (name: string) =>
    `apiVersion: cocoonset.cocoonstack.io/v1\nkind: CocoonSet\nmetadata: { name: ${name} }\nspec: { agent: { image: x } }\n`;
  assert.deepEqual(
    (await readSets(`---\n${set("a")}---\n${set("b")}---\n`, "f")).map(({ metadata }) => metadata.name),
    ["a", "b"],
  );
  await assert.rejects(readSets("kind: Pod\napiVersion: v1\n", "f"), /document 1: is v1 Pod, not cocoonset/);
  await assert.rejects(readSets("a: [", "f"), /-f f is not YAML/);
  await assert.rejects(readSets("", "f"), /holds no CocoonSet/);
  await assert.rejects(readSets(set("a").replace("name: a", "labels: {}"), "f"), /metadata.name is missing/);
});

test("events of a set are those of its object, its machines, also of the past, and their hibernations", () => {
  const event = (kind: string, name: string, second: number): KubeEvent => ({
    metadata: { creationTimestamp: `2026-01-01T00:00:0${second}Z` },
    regarding: { kind, name },
    reason: `r${second}`,
    note: "two\nlines",
    type: "Normal",
  });
  const all = [
    event("Pod", "demo-1", 3),
    { ...event("CocoonSet", "demo", 1), type: "Warning" },
    event("Pod", "web", 2),
    event("CocoonHibernation", "demo-1", 4),
    event("Pod", "demo-7", 5),
    event("CocoonSet", "other", 6),
  ];
  const reasons = (options: Parameters<typeof selectEvents>[1]) =>
    selectEvents(all, options).map(({ reason }) => reason);
  const subjects = new Set(["Pod/demo-1"]);
  assert.deepEqual(reasons({ subjects, name: "demo", warnings: false }), ["r1", "r3", "r4", "r5"]);
  assert.deepEqual(reasons({ subjects, name: undefined, warnings: false }), ["r1", "r3", "r4", "r6"]);
  assert.deepEqual(reasons({ subjects, name: undefined, warnings: true }), ["r1"]);
  const table = eventTable(all.slice(0, 1), {
    wide: false,
    namespaces: false,
    now: Date.parse("2026-01-01T00:01:03Z"),
  });
  assert.match(table, /^LAST SEEN .*\n1m +Normal +r3 +Pod\/demo-1 +two lines$/);
});

test("a hibernation is followed to the desired phase", () => {
  const look = (status: object, desire: "Hibernate" | "Wake", retry = "") =>
    lookAtHibernation(
      {
        metadata: { name: "demo-1" },
        spec: { podRef: { name: "demo-1" }, desire },
        status: { observedGeneration: 2, ...status },
      },
      { desire, generation: 2, retry },
    );
  const ready = (message: string) => [
    { type: "Ready", status: "False" as const, reason: "x", message, lastTransitionTime: "" },
  ];
  assert.equal(look({ phase: "Hibernated", observedGeneration: 1 }, "Hibernate").kind, "waiting");
  assert.deepEqual(look({ phase: "Hibernated", snapshotDigest: `sha256:${"ab".repeat(32)}` }, "Hibernate"), {
    kind: "done",
    text: "demo-1: asleep in sha256:abababababab",
  });
  assert.equal(look({ phase: "Hibernated" }, "Wake").kind, "waiting");
  assert.equal(look({ phase: "Active" }, "Wake").text, "demo-1: awake");
  assert.equal(
    look({ phase: "Hibernating", conditions: ready("pushing") }, "Hibernate").text,
    "Hibernating: pushing",
  );
  assert.throws(
    () => look({ phase: "Failed", conditions: ready("registry is away") }, "Hibernate"),
    /registry is away; the same command tries again/,
  );
  assert.equal(
    look({ phase: "Failed" }, "Hibernate", "another attempt").kind,
    "waiting",
    "the failure of an attempt before",
  );
  assert.throws(
    () => look({ phase: "Pending", conditions: ready("set demo is suspended; it wakes with it") }, "Wake"),
    /resume/,
  );
});
