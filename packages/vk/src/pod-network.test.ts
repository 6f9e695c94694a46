import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Pod } from "@cocoon/kubelet";
import { noDns, parseResolver, readPodNetwork } from "./pod-network.ts";

const facts = {
  clusterServers: ["10.96.0.10"],
  clusterDomain: "cluster.local",
  hostServers: ["192.0.2.53"],
  hostSearches: ["example.org"],
};

function pod(spec: Partial<Pod["spec"]>, annotations: Record<string, string> = {}): Pod {
  return {
    metadata: { namespace: "team", name: "agent-0", uid: "u1", annotations },
    spec: { containers: [{ name: "agent" }], ...spec },
  };
}

test("a pod uses the cluster's names by default, with its own namespace first", () => {
  assert.deepEqual(readPodNetwork(pod({}), facts).dns, {
    servers: ["10.96.0.10"],
    searches: ["team.svc.cluster.local", "svc.cluster.local", "cluster.local", "example.org"],
  });
});

test("dnsPolicy and dnsConfig mean what they mean for containers", () => {
  assert.deepEqual(readPodNetwork(pod({ dnsPolicy: "Default" }), facts).dns, {
    servers: ["192.0.2.53"],
    searches: ["example.org"],
  });
  const own = { nameservers: ["198.51.100.1"], searches: ["lab"] };
  assert.deepEqual(readPodNetwork(pod({ dnsPolicy: "None", dnsConfig: own }), facts).dns, {
    servers: ["198.51.100.1"],
    searches: ["lab"],
  });
  assert.deepEqual(readPodNetwork(pod({ dnsConfig: own }), facts).dns?.servers, [
    "10.96.0.10",
    "198.51.100.1",
  ]);
  assert.equal(readPodNetwork(pod({}), noDns).dns, undefined);
});

test("hostPorts and bandwidth annotations become what the plugins need", () => {
  const ports = [
    { containerPort: 22, hostPort: 2222 },
    { containerPort: 53, hostPort: 5353, protocol: "UDP", hostIP: "192.0.2.1" },
    { containerPort: 80 },
  ];
  const limits = { "kubernetes.io/ingress-bandwidth": "10M", "kubernetes.io/egress-bandwidth": "nonsense" };
  const { hostPorts, bandwidth } = readPodNetwork(pod({ containers: [{ name: "a", ports }] }, limits), facts);
  assert.deepEqual(hostPorts, [
    { hostPort: 2222, guestPort: 22, protocol: "tcp" },
    { hostPort: 5353, guestPort: 53, protocol: "udp", hostIp: "192.0.2.1" },
  ]);
  assert.deepEqual(bandwidth, { ingressBitsPerSecond: 10_000_000 });
});

test("a resolver file yields only servers that a guest can reach", () => {
  const text =
    "# made by\nnameserver 127.0.0.53\nnameserver ::1\nnameserver 192.0.2.7\nsearch a.example b.example\n";
  assert.deepEqual(parseResolver(text), {
    hostServers: ["192.0.2.7"],
    hostSearches: ["a.example", "b.example"],
  });
  fc.assert(
    fc.property(fc.string(), (any) => {
      for (const server of parseResolver(any).hostServers) assert.doesNotMatch(server, /^127\./);
    }),
  );
});
