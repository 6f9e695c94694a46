/** Two hosts that were given the same node name. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLogger } from "@cocoon/core";
import { FakeClock } from "@cocoon/core/testing";
import { leases } from "@cocoon/kube";
import { FakeCluster } from "@cocoon/kube/controller/testing";
import { eventually } from "@cocoon/testkit";
import { NodeLease, NodeNameTaken } from "./node-lease.ts";

const options = { signal: new AbortController().signal };

function openHosts(): { server: FakeCluster; clock: FakeClock; host: (machineId: string) => NodeLease } {
  const server = new FakeCluster();
  const clock = new FakeClock();
  const client = server.client();
  const host = (machineId: string) =>
    new NodeLease({ client, nodeName: "node-1", machineId, log: silentLogger, clock });
  return { server, clock, host };
}

/** Lets time pass while the claim observes the lease. */
async function passTime(clock: FakeClock, claim: Promise<void>, seconds: number): Promise<void> {
  const state = { done: false };
  const end = () => (state.done = true);
  void claim.then(end, end);
  for (let second = 0; second < seconds; second += 1) {
    await eventually(() => assert.ok(state.done || clock.timerCount > 0));
    if (state.done) return;
    clock.advance(1_000);
  }
}

test("a second host is refused while the first one renews the lease", async () => {
  const { clock, host } = openHosts();
  const first = host("a");
  await first.claim(options);
  await first.renew("uid", options);
  const claim = host("b").claim(options);
  claim.catch(() => undefined);
  await passTime(clock, claim, 5);
  await first.renew("uid", options);
  await passTime(clock, claim, 5);
  await assert.rejects(
    claim,
    (error) => error instanceof NodeNameTaken && /in use by host a/.test(error.message),
  );
  await first.renew("uid", options);
});

test("the lease of a host that is gone expires; when that host returns, it notices at its next renewal", async () => {
  const { clock, host, server } = openHosts();
  const first = host("a");
  await first.renew("uid", options);
  const second = host("b");
  const claim = second.claim(options);
  await passTime(clock, claim, 39);
  await eventually(() => assert.equal(clock.timerCount, 1, "not before the duration has passed"));
  await passTime(clock, claim, 2);
  await claim;
  await second.renew("uid", options);
  await assert.rejects(first.renew("uid", options), NodeNameTaken);
  const lease = await server.client().get(leases, { namespace: "kube-node-lease", name: "node-1" }, options);
  assert.equal(lease.metadata.annotations?.["virtual-kubelet.io/machine-id"], "b");
});

test("two hosts that start at the same time: the one that writes second is refused", async () => {
  const { host } = openHosts();
  const [first, second] = [host("a"), host("b")];
  await Promise.all([first.claim(options), second.claim(options)]);
  await first.renew("uid", options);
  await assert.rejects(second.renew("uid", options), NodeNameTaken);
});

test("a host takes its own lease, and one without a machine id, at once; others' changes do not end it", async () => {
  const { host, server } = openHosts();
  const first = host("a");
  await first.renew("uid", options);
  await host("a").claim(options);
  const key = { namespace: "kube-node-lease", name: "node-1" };
  const client = server.client();
  const labels = { type: "merge", body: { metadata: { labels: { note: "1" } } } } as const;
  await client.patch(leases, { key, patch: labels }, options);
  await assert.rejects(first.renew("uid", options), { code: "conflict", name: "Fault" });
  await first.renew("uid", options);
  const bare = { type: "merge", body: { metadata: { annotations: null } } } as const;
  await client.patch(leases, { key, patch: bare }, options);
  await host("b").claim(options);
});
