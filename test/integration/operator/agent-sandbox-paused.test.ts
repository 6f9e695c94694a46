/** A warm pool of paused machines with real guests: a claim has a running one at once, with its environment and metadata. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, fullTierOnly, sharedControlPlane } from "@cocoon/testkit";
import type { Vm, VmRuntime } from "@cocoon/vm";
import { openRealNode } from "../vk/real-guest.ts";
import {
  demoTemplate,
  extension,
  hasReason,
  installAgentSandbox,
  openSandboxWorld,
  timeoutMs,
} from "./sandbox-world.ts";

const cluster = await sharedControlPlane();
await installAgentSandbox(cluster);
const { signal } = new AbortController();

/** A boot takes several times as long, also where nothing else runs. */
const readyMs = 3_000;

test(
  "real guests of a pool stand still, and a claim has one running at once",
  fullTierOnly("boots four guests"),
  async (t) => {
    let runtime: VmRuntime | undefined;
    await using given = await openRealNode(cluster, { wrap: (opened) => (runtime = opened) });
    await using world = await openSandboxWorld(cluster, { nodes: 1, given });
    const listVms = async () => (await runtime?.list({ signal })) ?? [];
    const states = async () => (await listVms()).map(({ state }) => state).toSorted();
    const become = (...wanted: readonly Vm["state"][]) =>
      eventually(async () => assert.deepEqual(await states(), wanted), { timeoutMs, intervalMs: 200 });

    const template = { podTemplate: demoTemplate(world), envVarsInjectionPolicy: "Allowed" };
    await world.apply(extension("SandboxTemplate", "tpl", template));
    const pool = extension("SandboxWarmPool", "pool", { replicas: 2, sandboxTemplateRef: { name: "tpl" } });
    const annotations = { "vm.cocoonstack.io/pause": "true" };
    await world.apply({ ...pool, metadata: { name: "pool", annotations } });
    await become("paused", "paused");
    const members = new Map((await listVms()).map(({ name, id }) => [name, id]));
    await given.node.kill();
    await given.node.start();
    await eventually(async () => assert.equal((await world.get("swp", "pool"))?.status?.readyReplicas, 2), {
      timeoutMs,
    });
    await become("paused", "paused");

    const began = performance.now();
    await world.apply(
      extension("SandboxClaim", "c1", {
        warmPoolRef: { name: "pool" },
        env: [{ name: "TOKEN", value: "it's mine" }],
        additionalPodMetadata: { labels: { "sandbox.users.io/team": "blue" } },
      }),
    );
    const claimed = await hasReason(world, ["sandboxclaim", "c1"], "DependenciesReady");
    const tookMs = performance.now() - began;
    t.diagnostic(`claim to Ready: ${tookMs.toFixed(0)} ms`);
    const name = claimed.status?.sandbox?.name ?? "";
    const vm = (await listVms()).find(
      (each) => each.id === members.get(each.name) && each.state === "running",
    );
    assert.equal(vm?.name, await world.vmName(name), "one of the members");
    const pod = await world.get("pod", name);
    assert.equal(pod?.metadata.labels?.["sandbox.users.io/team"], "blue");
    const inGuest = async (script: string) => {
      const exec = ["exec", name, "-n", world.namespace.name, "--", "sh", "-c", script];
      return (await cluster.kubectl(exec)).stdout.trim();
    };
    assert.equal(await inGuest('echo "$TOKEN"'), "it's mine");
    assert.equal(await inGuest('unset TOKEN; . /etc/profile.d/cocoon-env.sh; echo "$TOKEN"'), "it's mine");
    assert.ok(tookMs < readyMs, `${tookMs} ms`);

    await become("paused", "paused", "running");
    await world.kubectl("delete", "sandboxclaim", "c1");
    await world.kubectl("scale", "swp", "pool", "--replicas=1");
    await become("paused");
  },
);
