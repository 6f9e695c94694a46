import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { compilePolicies, type ObservedPolicies, type PolicySpec } from "./compile.ts";

// oxlint-disable-next-line max-params -- a table of pods
const pod = (name: string, ip: string, labels: Record<string, string> = {}, namespace = "lab") => ({
  namespace,
  name,
  labels,
  ip,
  ports: [{ name: "web", containerPort: 8080 }],
});

const agent = pod("agent-0", "10.0.0.2", { set: "atlas" });
const pods = [
  agent,
  pod("agent-1", "10.0.0.3", { set: "atlas" }),
  pod("other-0", "10.0.0.4", { set: "other" }),
  pod("far-0", "10.0.0.5", { set: "atlas" }, "team"),
];

function compile(...specs: readonly PolicySpec[]): string[] {
  return compileWith({ filtersBridges: false }, specs);
}

function compileWith(host: { readonly filtersBridges: boolean }, specs: readonly PolicySpec[]): string[] {
  const observed: ObservedPolicies = {
    policies: specs.map((spec, index) => ({ namespace: "lab", name: `p${index}`, spec })),
    pods,
    namespaces: new Map([
      ["lab", { "kubernetes.io/metadata.name": "lab" }],
      ["team", { "kubernetes.io/metadata.name": "team" }],
    ]),
    isLocal: ({ name }) => name === "agent-0",
    ...host,
  };
  return compilePolicies(observed)
    .split("\n")
    .map((line) => line.trim());
}

const own = { podSelector: { matchLabels: { set: "atlas" } } };

/** The rules of one chain of the first table. */
function chain(lines: readonly string[], name: string): string[] {
  const start = lines.indexOf(`chain ${name} {`);
  return start < 0 ? [] : lines.slice(start + 1, lines.indexOf("}", start));
}

test("without a policy there are no rules, and former ones go", () => {
  assert.deepEqual(compile(), [
    "table inet cocoon_policy",
    "delete table inet cocoon_policy",
    "table bridge cocoon_policy",
    "delete table bridge cocoon_policy",
    "",
  ]);
});

test("a policy without rules lets nothing in, and replies still pass", () => {
  const lines = compile({ podSelector: {} });
  assert.deepEqual(chain(lines, "ingress_10_0_0_2"), ["drop"]);
  assert.deepEqual(chain(lines, "egress_10_0_0_2"), []);
  assert.ok(lines.includes("ct state established,related accept"));
  assert.ok(lines.includes("ip daddr vmap { 10.0.0.2 : jump ingress_10_0_0_2 }"));
  const countHooks = (of: readonly string[]) =>
    of.filter((line) => line.startsWith("type filter hook forward")).length;
  assert.equal(countHooks(lines), 2, "routed and bridged");
  assert.equal(
    countHooks(compileWith({ filtersBridges: true }, [{ podSelector: {} }])),
    1,
    "br_netfilter shows both to one",
  );
});

test("peers are chosen by labels of pods and namespaces; a namespace of its own unless one is selected", () => {
  assert.deepEqual(chain(compile({ ...own, ingress: [{ from: [own] }] }), "ingress_10_0_0_2"), [
    "ip saddr { 10.0.0.2, 10.0.0.3 } return",
    "drop",
  ]);
  const everywhere = { namespaceSelector: {}, ...own };
  assert.deepEqual(chain(compile({ ...own, ingress: [{ from: [everywhere] }] }), "ingress_10_0_0_2"), [
    "ip saddr { 10.0.0.2, 10.0.0.3, 10.0.0.5 } return",
    "drop",
  ]);
  const team = { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "team" } } };
  assert.deepEqual(chain(compile({ ...own, ingress: [{ from: [team] }] }), "ingress_10_0_0_2"), [
    "ip saddr { 10.0.0.5 } return",
    "drop",
  ]);
});

test("ports, ranges, names, address blocks and their exceptions", () => {
  const ports = [
    { port: 22 },
    { port: 8000, endPort: 8100 },
    { port: "web" },
    { protocol: "UDP" },
    { port: "nope" },
  ];
  assert.deepEqual(chain(compile({ ...own, ingress: [{ ports }] }), "ingress_10_0_0_2"), [
    "tcp dport 22 return",
    "tcp dport 8000-8100 return",
    "tcp dport { 8080 } return",
    "meta l4proto udp return",
    "drop",
  ]);
  const to = [{ ipBlock: { cidr: "0.0.0.0/0", except: ["10.0.0.0/8"] } }, { ipBlock: { cidr: "fd00::/8" } }];
  const egress = { ...own, policyTypes: ["Egress"], egress: [{ to, ports: [{ port: 443 }] }] };
  const lines = compile(egress);
  assert.deepEqual(chain(lines, "egress_10_0_0_2"), [
    "ip daddr != { 10.0.0.0/8 } tcp dport 443 return",
    "drop",
  ]);
  assert.deepEqual(chain(lines, "ingress_10_0_0_2"), []);
});

test("policies add up: what one of them allows is allowed", () => {
  const lines = compile(
    { ...own, ingress: [{ from: [own] }] },
    { podSelector: {}, ingress: [{ ports: [{ port: 22 }] }] },
  );
  assert.deepEqual(chain(lines, "ingress_10_0_0_2"), [
    "ip saddr { 10.0.0.2, 10.0.0.3 } return",
    "tcp dport 22 return",
    "drop",
  ]);
});

test("every chain that is jumped to exists and ends with a drop, whatever the policies say", () => {
  const labels = fc.dictionary(fc.constantFrom("set", "role"), fc.constantFrom("atlas", "other"), {
    maxKeys: 2,
  });
  const selector = labels.map((matchLabels) => ({ matchLabels }));
  const peer = fc.oneof(
    selector.map((podSelector) => ({ podSelector })),
    selector.map((namespaceSelector) => ({ namespaceSelector })),
    fc.constant({ ipBlock: { cidr: "192.0.2.0/24" } }),
  );
  const rules = fc.array(fc.array(peer, { maxLength: 3 }), { maxLength: 3 });
  const spec = fc.record({ podSelector: selector, rules }).map(({ podSelector, rules: each }) => ({
    podSelector,
    policyTypes: ["Ingress", "Egress"],
    ingress: each.map((from) => ({ from })),
    egress: each.map((to) => ({ to })),
  }));
  fc.assert(
    fc.property(fc.array(spec, { maxLength: 4 }), (specs) => {
      const lines = compile(...specs);
      const jumps = lines.flatMap((line) => [...line.matchAll(/jump (\w+)/g)].map((match) => match[1] ?? ""));
      for (const name of jumps) assert.equal(chain(lines, name).at(-1), "drop");
    }),
  );
});
