import assert from "node:assert/strict";
import { test } from "node:test";
import { formatRoute, parseRoute } from "./relay-plan.ts";
import { buildConflist, buildRouterRules, cniPlugins, describeTopology } from "./topology.ts";

test("each platform has namespaces of its own, by names that are found again", () => {
  const one = describeTopology("/state/one");
  assert.deepEqual(describeTopology("/state/one"), one);
  const names = ["/state/one", "/state/two"].flatMap((directory) => {
    const { router, nodes } = describeTopology(directory);
    return [router, ...nodes.map(({ netns }) => netns)];
  });
  assert.equal(new Set(names).size, 6);
  assert.deepEqual(
    one.nodes.map(({ gateway, address, cidr }) => [gateway, address, cidr]),
    [
      ["10.244.0.5", "10.244.0.6", "10.244.1.0/24"],
      ["10.244.0.9", "10.244.0.10", "10.244.2.0/24"],
    ],
  );
});

test("the plugins that are looked for are those of the configuration", () => {
  const [node] = describeTopology("/state").nodes;
  assert.ok(node);
  const text = JSON.stringify(buildConflist(node, "/state/ipam"));
  const used = [...text.matchAll(/"type":"([\w-]+)"/g)].map((match) => match[1] ?? "");
  assert.deepEqual(used.toSorted(), cniPlugins.toSorted());
});

test("machines reach two services of the router, and neither slirp4netns nor metadata", () => {
  const rules = buildRouterRules(6443);
  assert.match(rules, /ip daddr 10\.244\.0\.254 tcp dport \{ 53, 6443 \} accept/);
  assert.match(rules, /ip daddr \{ 169\.254\.0\.0\/16, 10\.244\.255\.0\/24 \} reject/);
});

test("a route of the relay is one word, and a wrong one is an error that shows the form", () => {
  const route = { netns: "cocoon-up-0-router", host: "10.244.0.254", port: 6443 };
  assert.deepEqual(parseRoute(formatRoute(route)), route);
  for (const wrong of ["", "a=b:1", "a=127.0.0.1:0", "a=127.0.0.1:70000", "a b=127.0.0.1:80"])
    assert.throws(() => parseRoute(wrong), /NAMESPACE=ADDRESS:PORT/, wrong);
});
