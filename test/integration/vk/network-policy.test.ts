/** NetworkPolicies on a node: from objects of a real API server to packets between namespaces that stand for machines. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { silentLogger } from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import { eventually, sharedControlPlane } from "@cocoon/testkit";
import { compilePolicies, type PolicyPod } from "../../../packages/vk/src/policy/compile.ts";
import { enforcePolicies } from "../../../packages/vk/src/policy/enforce.ts";
import { openCniHost, type CniHost } from "../vm-network/cni-host.ts";

const cluster = await sharedControlPlane();

/** Three on one bridge, one behind a routed link. */
async function connectMachines(host: CniHost): Promise<void> {
  const script = [
    "ip link add br0 type bridge && ip address add 10.0.0.1/24 dev br0 && ip link set br0 up",
    "echo 1 > /proc/sys/net/ipv4/ip_forward",
    "for n in 2 3 4; do ip netns add m$n; ip link add v$n type veth peer name eth0 netns m$n; ip link set v$n master br0 up",
    "ip -n m$n address add 10.0.0.$n/24 dev eth0; ip -n m$n link set eth0 up; ip -n m$n route add default via 10.0.0.1; done",
    "ip netns add m5; ip link add v5 type veth peer name eth0 netns m5; ip address add 10.0.1.1/24 dev v5; ip link set v5 up",
    "ip -n m5 address add 10.0.1.5/24 dev eth0; ip -n m5 link set eth0 up; ip -n m5 route add default via 10.0.1.1",
  ];
  await host.must("sh", "-ec", script.join("\n"));
}

const machine = (name: string, ip: string, labels: Record<string, string>): PolicyPod => ({
  namespace: "lab",
  name,
  labels,
  ip,
  ports: [],
});
const atlas = { set: "atlas" };
const machines = [
  machine("m2", "10.0.0.2", atlas),
  machine("m3", "10.0.0.3", atlas),
  machine("m4", "10.0.0.4", { set: "other" }),
  machine("m5", "10.0.1.5", atlas),
];

test("only allowed peers get through, on the bridge and routed, and replies always do", async () => {
  await using host = await openCniHost();
  await connectMachines(host);
  const own = { podSelector: { matchLabels: atlas } };
  const spec = { ...own, ingress: [{ from: [own] }] };
  const rules = compilePolicies({
    policies: [{ namespace: "lab", name: "p", spec }],
    pods: machines,
    namespaces: new Map([["lab", {}]]),
    isLocal: () => true,
    filtersBridges: true,
  });
  const file = join(host.directory, "rules.nft");
  await writeFile(file, rules);
  const reaches = async (from: string, ip: string) =>
    (await host.inside("ip", "netns", "exec", from, "ping", "-c", "1", "-W", "1", ip)).code === 0;
  const look = async () => ({
    sameSet: await reaches("m2", "10.0.0.3"),
    otherSet: await reaches("m4", "10.0.0.2"),
    reply: await reaches("m2", "10.0.0.4"),
    routed: await reaches("m5", "10.0.0.2"),
    routedOther: await reaches("m4", "10.0.1.5"),
    host: (await host.inside("ping", "-c", "1", "-W", "1", "10.0.0.2")).code === 0,
  });
  const open = { sameSet: true, otherSet: true, reply: true, routed: true, routedOther: true, host: true };
  assert.deepEqual(await look(), open, "without rules everything gets through");
  await host.must("sh", "-c", "echo 1 > /proc/sys/net/bridge/bridge-nf-call-iptables");
  // Loading twice is the same as once.
  for (const time of ["first", "second"]) {
    await host.must("nft", "-f", file);
    assert.deepEqual(await look(), { ...open, otherSet: false, routedOther: false }, `${time} time`);
  }
  await writeFile(
    file,
    compilePolicies({
      policies: [],
      pods: machines,
      namespaces: new Map(),
      isLocal: () => true,
      filtersBridges: true,
    }),
  );
  await host.must("nft", "-f", file);
  assert.deepEqual(await look(), open);
  assert.equal(await host.must("nft", "list", "tables"), "");
});

test("rules follow pods, their addresses and policies of the API server", async (t) => {
  await using namespace = await cluster.newNamespace();
  await using client = await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal: t.signal });
  const stop = new AbortController();
  let rules = "";
  const enforcing = enforcePolicies({
    client,
    node: "policy-node",
    log: silentLogger,
    signal: stop.signal,
    load: (text) => {
      rules = text;
      return Promise.resolve();
    },
  });
  const apply = async (object: object) => {
    const args = ["apply", "-n", namespace.name, "-f", "-"];
    const done = await cluster.kubectl(args, { input: JSON.stringify(object) });
    assert.equal(done.code, 0, done.stderr);
  };
  const pod = async (name: string, ip: string) => {
    await apply({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, labels: { set: name.split("-")[0] } },
      spec: { nodeName: "policy-node", containers: [{ name: "agent", image: "x" }] },
    });
    const patch = JSON.stringify({ status: { phase: "Running", podIP: ip, podIPs: [{ ip }] } });
    await cluster.kubectl([
      "patch",
      "pod",
      "-n",
      namespace.name,
      name,
      "--subresource=status",
      "--type=merge",
      "-p",
      patch,
    ]);
  };
  await pod("atlas-0", "10.9.0.2");
  await pod("other-0", "10.9.0.3");
  await apply({
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: "p" },
    spec: { podSelector: { matchLabels: { set: "atlas" } }, ingress: [{ from: [{ podSelector: {} }] }] },
  });
  await eventually(() =>
    assert.match(
      rules,
      /chain ingress_10_9_0_2 \{\n +ip saddr \{ 10\.9\.0\.2, 10\.9\.0\.3 \} return\n +drop/,
    ),
  );
  assert.doesNotMatch(rules, /chain ingress_10_9_0_3/);
  await pod("atlas-0", "10.9.0.7");
  await eventually(() => assert.match(rules, /chain ingress_10_9_0_7 \{/));
  await cluster.kubectl(["delete", "networkpolicy", "-n", namespace.name, "p"]);
  await eventually(() => assert.doesNotMatch(rules, /10\.9\.0/));
  stop.abort();
  await enforcing.catch(() => undefined);
});
