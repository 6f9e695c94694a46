import assert from "node:assert/strict";
import { test } from "node:test";
import { buildEgressPolicy, readEgressRules } from "./egress-rules.ts";

const owner = { namespace: "a", name: "i1" };

function readTargets(request: Parameters<typeof readEgressRules>[0]) {
  const rules = readEgressRules(request);
  return rules && buildEgressPolicy(owner, rules).spec?.egress;
}

test("without a denial there is no policy, whatever is allowed", () => {
  assert.equal(readEgressRules({}), undefined);
  assert.equal(readEgressRules({ allowOut: ["1.1.1.1"], internet: true }), undefined);
});

test("what is denied is left out, and what is allowed is let through all the same", () => {
  assert.deepEqual(readTargets({ denyOut: ["10.1.2.3/8", "1.1.1.1"], allowOut: ["10.0.0.7"] }), [
    {
      to: [
        { ipBlock: { cidr: "0.0.0.0/0", except: ["10.0.0.0/8", "1.1.1.1/32"] } },
        { ipBlock: { cidr: "10.0.0.7/32" } },
      ],
    },
  ]);
});

test("no internet is no rule at all, but for what is allowed", () => {
  assert.deepEqual(readTargets({ internet: false }), []);
  assert.deepEqual(readTargets({ denyOut: ["0.0.0.0/0", "10.0.0.0/8"], allowOut: ["255.255.255.255/1"] }), [
    { to: [{ ipBlock: { cidr: "128.0.0.0/1" } }] },
  ]);
});

test("names and IPv6 are refused by field", () => {
  for (const value of ["example.com", "*.example.com", "::/0", "1.2.3.4/33", "1.2.3/8", "1.2.3.4/8/9", ""])
    assert.throws(() => readEgressRules({ allowOut: [value], denyOut: ["0.0.0.0/0"] }), /network\.allowOut/);
  assert.throws(() => readEgressRules({ denyOut: ["example.com"] }), /network\.denyOut/);
});

test("the policy selects the machine of its sandbox alone", () => {
  const policy = buildEgressPolicy(owner, { allow: [], deny: ["0.0.0.0/0"] });
  assert.deepEqual(
    [policy.metadata, policy.spec?.podSelector, policy.spec?.policyTypes],
    [
      { namespace: "a", name: "i1-egress", labels: { "cocoonset.cocoonstack.io/name": "i1" } },
      { matchLabels: { "cocoonset.cocoonstack.io/name": "i1" } },
      ["Egress"],
    ],
  );
});
