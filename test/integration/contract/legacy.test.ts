/** The older API beside the current one, on a control plane of its own: there `kubectl get cocoonsets` changes meaning. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readCocoonSet } from "@cocoon/contract";
import {
  fromLegacyCocoonSet,
  fromLegacyHibernation,
  readLegacyCocoonSet,
  readLegacyHibernation,
} from "@cocoon/contract/legacy";
import { ownControlPlane } from "@cocoon/testkit";
import { openApi } from "./api.ts";
import { installCrds } from "./install-crds.ts";

const sample = {
  apiVersion: "cocoon.cis/v1alpha1",
  kind: "CocoonSet",
  metadata: { name: "demo", namespace: "default" },
  spec: {
    agent: {
      image: "team/base-agent:v7",
      replicas: 2,
      storage: "100G",
      resources: { cpu: "2", memory: "4Gi" },
      envFrom: [{ secretRef: { name: "demo-env" }, note: "kept as it is" }],
    },
    toolboxes: [
      { name: "browser", image: "registry.example/desktop:24" },
      { name: "legacy", os: "windows", mode: "static" },
    ],
  },
};
const nap = {
  apiVersion: "cocoon.cis/v1alpha1",
  kind: "Hibernation",
  metadata: { name: "nap", namespace: "default" },
  spec: { podName: "demo-2" },
};

test("documented objects of the older API are stored, and what they convert to is accepted", async () => {
  await using cluster = await ownControlPlane();
  using api = openApi(cluster);
  await installCrds(cluster, ["deploy/crds", "deploy/crd.yaml", "deploy/cocoonset-crd.yaml"]);
  const legacy = "/apis/cocoon.cis/v1alpha1/namespaces/default";
  const current = "/apis/cocoonset.cocoonstack.io/v1/namespaces/default";

  const set = await api.call({ method: "POST", path: `${legacy}/cocoonsets`, body: sample });
  assert.equal(set.status, 201, set.message);
  const read = readLegacyCocoonSet(set.body);
  assert.equal(read.spec.suspend, false, "the API server filled in the defaults");
  assert.deepEqual(read.spec.agent.envFrom, sample.spec.agent.envFrom);

  const converted = fromLegacyCocoonSet(read);
  assert.deepEqual(converted.waiting, ["legacy"]);
  const bridged = await api.call({ method: "POST", path: `${current}/cocoonsets`, body: converted.set });
  assert.equal(bridged.status, 201, bridged.message);
  const result = readCocoonSet(bridged.body);
  assert.deepEqual(result.spec.agent.resources, { limits: { cpu: "2", memory: "4Gi" } });
  assert.equal(result.spec.toolboxes?.[1]?.awaitAddress, true);

  const sleep = await api.call({ method: "POST", path: `${legacy}/hibernations`, body: nap });
  assert.equal(sleep.status, 201, sleep.message);
  const hibernationRequest = fromLegacyHibernation(readLegacyHibernation(sleep.body));
  const hibernation = await api.call({
    method: "POST",
    path: `${current}/cocoonhibernations`,
    body: hibernationRequest,
  });
  assert.equal(hibernation.status, 201, hibernation.message);

  const kubectl = (...args: readonly string[]) => cluster.kubectl([...args, "--namespace=default"]);
  const patched = await kubectl(
    "patch",
    "hibernations.cocoon.cis",
    "nap",
    "--type=merge",
    '-p={"spec":{"action":"wake"}}',
  );
  assert.equal(patched.code, 0, patched.stderr);
  const refused = await kubectl("patch", "hib", "nap", "--type=merge", '-p={"spec":{"action":"reboot"}}');
  assert.match(refused.stderr, /spec\.action: Unsupported value: "reboot"/);
  const listed = await kubectl("get", "hib", "--no-headers");
  assert.match(listed.stdout, /^nap\s+demo-2\s+wake\s+\S+/);
  const wide = (await kubectl("get", "hib", "-o", "wide")).stdout.split("\n")[0]?.trim().split(/\s+/);
  assert.deepEqual(wide, ["NAME", "POD", "ACTION", "PHASE", "VM", "AGE"]);

  const ambiguous = await kubectl("get", "cocoonsets", "-o", "jsonpath={.items[0].apiVersion}");
  assert.equal(ambiguous.stdout, "cocoon.cis/v1alpha1", "why the older CRDs are only installed on request");
  const exact = await kubectl("get", "cset", "-o", "jsonpath={.items[0].apiVersion}");
  assert.equal(exact.stdout, "cocoonset.cocoonstack.io/v1");
});
