import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { test } from "node:test";
import type { KubeConnection, ObjectCache } from "@cocoon/kube";
import { Authenticator } from "../tenants/authenticate.ts";
import type { KeySecret } from "../tenants/key-lookup.ts";
import { readPortCookies, withoutPortCookies } from "./port-cookie.ts";
import { PortPasses } from "./port-pass.ts";
import type { MachineTarget } from "./target.ts";
import { Visitors } from "./visitors.ts";

const target: MachineTarget = { kind: "machine", namespace: "team-a", machine: "web-0", port: 8000 };
const user = { username: "ann", groups: ["dev"] };

/** An API server that knows one token of a person, who may read pods; `rights` may be added to. */
function openVisitors(rights: string[]): { visitors: Visitors; passes: PortPasses } {
  const create = (_type: unknown, { spec }: { spec: Record<string, unknown> }) => {
    if ("token" in spec)
      return Promise.resolve({ status: spec["token"] === "anns" ? { authenticated: true, user } : {} });
    const { verb, subresource = "" } = spec["resourceAttributes"] as Record<string, string>;
    const isAnn = spec["user"] === "ann" && JSON.stringify(spec["groups"]) === '["dev"]';
    return Promise.resolve({ status: { allowed: isAnn && rights.includes(`${verb} ${subresource}`) } });
  };
  const passes = new PortPasses("seed");
  const noKeys = { index: () => ({ get: () => [] }) } as unknown as ObjectCache<KeySecret>;
  const authenticator = new Authenticator({ create } as unknown as KubeConnection, noKeys);
  return { passes, visitors: new Visitors(authenticator, passes) };
}

function request(headers: Record<string, string>, method = "GET"): IncomingMessage {
  return { headers, method } as unknown as IncomingMessage;
}

test("a person needs the right to forward ports of the pod", async (t) => {
  const denied = openVisitors(["get "]).visitors;
  assert.equal((await denied.findUser("anns", t))?.username, "ann");
  assert.equal(await denied.findUser("another", t), undefined);
  await assert.rejects(denied.assertMayConnect(user, target, t), /ann may not create pods\/portforward/);
  await openVisitors(["get ", "create portforward"]).visitors.assertMayConnect(user, target, t);
  const blind = openVisitors(["create portforward"]).visitors;
  await assert.rejects(blind.assertMayConnect(user, target, t), /may not get pods/);
});

test("a cookie is for one port of one machine, and for its own page", () => {
  const { visitors, passes } = openVisitors([]);
  const value = passes.issue({ purpose: "cookie", user, target, lifeMs: 60_000 });
  const headers = {
    cookie: `a=b; cocoon-port=forged.x; cocoon-port=${value}`,
    host: "8000-web-0.team-a.test",
  };
  assert.equal(visitors.findCookieUser(request(headers), target)?.username, "ann");
  assert.equal(visitors.findCookieUser(request(headers), { ...target, port: 8001 }), undefined);
  assert.equal(visitors.findCookieUser(request(headers), { ...target, machine: "web-1" }), undefined);
  const neighbour = { ...headers, origin: "http://80-other-0.team-a.test" };
  assert.throws(() => visitors.findCookieUser(request(neighbour, "POST"), target), /another host/);
  const embedded = { ...headers, "sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors" };
  assert.throws(() => visitors.findCookieUser(request(embedded), target), /another host/);
  const followed = {
    ...headers,
    "sec-fetch-site": "cross-site",
    "sec-fetch-mode": "navigate",
    "sec-fetch-dest": "document",
  };
  assert.equal(visitors.findCookieUser(request(followed), target)?.username, "ann");
});

test("a pass serves its purpose until it ends, and cannot be changed", () => {
  let now = 1_000;
  const passes = new PortPasses("seed", () => now);
  const code = passes.issue({ purpose: "link", user, target, lifeMs: 500 });
  assert.deepEqual(passes.tryRead(code, "link", target)?.user, user);
  assert.equal(passes.tryRead(code, "cookie", target), undefined);
  assert.equal(new PortPasses("other", () => now).tryRead(code, "link", target), undefined);
  const [body = "", signature = ""] = code.split(".");
  const changed = Buffer.from(body, "base64url").toString().replace("ann", "bob");
  const forged = `${Buffer.from(changed).toString("base64url")}.${signature}`;
  assert.equal(passes.tryRead(forged, "link", target), undefined);
  now += 500;
  assert.equal(passes.tryRead(code, "link", target), undefined);
});

test("the guest sees its own cookies and not the gateway's", () => {
  assert.equal(withoutPortCookies("a=b; cocoon-port=x.y; c=d=e"), "a=b; c=d=e");
  assert.equal(withoutPortCookies("__Host-cocoon-port=x"), undefined);
  assert.deepEqual(readPortCookies({ headers: { cookie: "cocoon-port=x.y=; a=cocoon-port" } }), ["x.y="]);
});
