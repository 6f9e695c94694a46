import assert from "node:assert/strict";
import { test } from "node:test";
import { annotation, readCocoonSet, type CocoonHibernation, type CocoonSet } from "@cocoon/contract";
import { Fault, isFault, silentLogger } from "@cocoon/core";
import type { CustomObject } from "../kinds.ts";
import { readMachine } from "../pod-machine.ts";
import { applyActions, type ApplyContext } from "./apply.ts";
import { computeMembers } from "./members.ts";

const { signal } = new AbortController();
const pod = {
  metadata: { namespace: "lab", name: "atlas-0", uid: "p", annotations: {} },
  spec: { containers: [{ name: "agent" }] },
};
const request = {
  apiVersion: "cocoonset.cocoonstack.io/v1",
  kind: "CocoonHibernation",
  metadata: { namespace: "lab", name: "atlas-0", uid: "h", generation: 1 },
  spec: { podRef: { name: "atlas-0" }, desire: "Hibernate" },
};

/** Hibernates the pod while the API server has that object; returns the patches of the pod. */
async function hibernate(live: CustomObject | undefined): Promise<object[]> {
  const patches: object[] = [];
  const parts = {
    client: {
      get: () =>
        live ? Promise.resolve(live) : Promise.reject(new Fault("notFound", "there is no such object")),
    },
    pods: {
      get: () => pod,
      patch: ({ patch }: { readonly patch: { readonly body: object } }) => {
        patches.push(patch.body);
        return Promise.resolve(pod);
      },
    },
  } as unknown as ApplyContext["parts"];
  const set = { metadata: { namespace: "lab", name: "atlas" } } as unknown as CocoonSet;
  const context = { parts, set, log: silentLogger, persistStatus: () => Promise.resolve(), signal };
  const requestedBy = request as unknown as CocoonHibernation;
  const annotations = { [annotation.hibernate]: "true" };
  await applyActions(context, [{ kind: "changePod", machine: readMachine(pod), annotations, requestedBy }]);
  return patches;
}

test("a machine is hibernated by a request that the API server has", async () => {
  assert.equal((await hibernate(request)).length, 1);
});

test("a request that only the cache knows hibernates nothing", async () => {
  const unavailable = (error: unknown) => isFault(error, "unavailable");
  await assert.rejects(hibernate(undefined), unavailable);
  await assert.rejects(
    hibernate({ ...request, metadata: { ...request.metadata, uid: "another" } }),
    unavailable,
  );
  const woken = { ...request, spec: { ...request.spec, desire: "Wake" } };
  await assert.rejects(hibernate(woken), unavailable);
});

/** Creates the pods of a set while the API server has that object; returns the names of those that were made, and the lookups. */
async function createPods(live: CustomObject | undefined): Promise<{ made: string[]; lookups: number }> {
  const made: string[] = [];
  let lookups = 0;
  const parts = {
    client: {
      get: () => {
        lookups += 1;
        return live ? Promise.resolve(live) : Promise.reject(new Fault("notFound", "there is no such set"));
      },
    },
    pods: {
      ensure: (wanted: typeof pod) => {
        made.push(wanted.metadata.name);
        return Promise.resolve(wanted);
      },
    },
  } as unknown as ApplyContext["parts"];
  const set = readCocoonSet({
    metadata: { name: "atlas", namespace: "lab", uid: "s", generation: 1 },
    spec: { agent: { image: "cocoon-demo", replicas: 1 } },
  });
  const context = { parts, set, log: silentLogger, persistStatus: () => Promise.resolve(), signal };
  const options = { placement: { kind: "anywhere" }, restore: false, sleep: "", legacyKeys: false } as const;
  const { main, subAgents } = computeMembers(set);
  const actions = [main, ...subAgents].map((member) => ({ kind: "createPod", member, options }) as const);
  try {
    await applyActions(context, actions);
  } catch (error) {
    assert.ok(isFault(error, "unavailable"), String(error));
  }
  return { made, lookups };
}

test("a set that only the cache knows gets no pods; one that lives is looked up once", async () => {
  const live = { apiVersion: request.apiVersion, kind: "CocoonSet", metadata: { name: "atlas", uid: "s" } };
  assert.deepEqual(await createPods(live), { made: ["atlas-0", "atlas-1"], lookups: 1 });
  assert.deepEqual((await createPods(undefined)).made, []);
  assert.deepEqual((await createPods({ ...live, metadata: { name: "atlas", uid: "newer" } })).made, []);
});
