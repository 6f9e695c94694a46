import assert from "node:assert/strict";
import { test } from "node:test";
import type { KubeConnection, KubeUser, ObjectCache } from "@cocoon/kube";
import { ApiError } from "../http/answer.ts";
import { Authenticator } from "./authenticate.ts";
import type { KeySecret } from "./key-lookup.ts";
import { TenantSets } from "./tenant.ts";

interface Sent {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** An API server that knows these tokens, and allows what `rights` lists as "user verb resource namespace". */
function open(tokens: Readonly<Record<string, KubeUser>>, rights: readonly string[]) {
  const sent: Sent[] = [];
  const create = async (
    { kind }: { readonly kind: string },
    { spec }: { readonly spec: Record<string, unknown> },
  ): Promise<unknown> => {
    if (kind === "TokenReview") {
      const user = tokens[String(spec["token"])];
      return { metadata: {}, status: user ? { authenticated: true, user } : { authenticated: false } };
    }
    const attributes = spec["resourceAttributes"] as Record<string, string>;
    const what = [attributes["resource"], attributes["subresource"]].filter(Boolean).join("/");
    const asked = `${String(spec["user"])} ${attributes["verb"]} ${what} ${attributes["namespace"]}`;
    return { metadata: {}, status: { allowed: rights.includes(asked) } };
  };
  const raw = async (request: Sent) => (sent.push(request), { metadata: {} });
  const client = { create, raw } as unknown as KubeConnection;
  const secrets = { index: () => ({ get: () => [] }) } as unknown as ObjectCache<KeySecret>;
  return { authenticator: new Authenticator(client, secrets), client, sent };
}

const robot = { username: "system:serviceaccount:a:robot" };
const alice = { username: "alice", groups: ["people"] };
const uses = (user: string, namespace: string) => [
  `${user} get cocoonsets ${namespace}`,
  `${user} create pods/exec ${namespace}`,
];
const refusal = (status: number, words: RegExp) => (error: unknown) =>
  error instanceof ApiError && error.status === status && words.test(error.message);

test("a ServiceAccount's token is a key of its namespace, if it may use sandboxes there", async (t) => {
  const { authenticator } = open({ r: robot }, uses(robot.username, "a"));
  assert.deepEqual(await authenticator.authenticate("r", t), {
    namespace: "a",
    user: robot.username,
    keyId: robot.username,
  });
  const { authenticator: closed } = open({ r: robot }, [`${robot.username} get cocoonsets a`]);
  await assert.rejects(closed.authenticate("r", t), refusal(403, /create pods\/exec in namespace a/));
});

test("a person's token names the namespace, and acts there as its sandbox account", async (t) => {
  const { authenticator } = open({ p: alice }, uses("alice", "team"));
  const tenant = await authenticator.authenticate("team:p", t);
  assert.deepEqual(
    [tenant.namespace, tenant.user, tenant.person],
    ["team", "system:serviceaccount:team:cocoon-sandbox", alice],
  );
  await assert.rejects(authenticator.authenticate("p", t), refusal(401, /NAMESPACE:TOKEN/));
  await assert.rejects(authenticator.authenticate("other:p", t), refusal(403, /namespace other/));
  await assert.rejects(authenticator.authenticate("team:unknown", t), refusal(401, /Invalid API key/));
  await assert.rejects(authenticator.authenticate("team:no token!", t), refusal(401, /Invalid API key/));
});

test("what a person may not do is not done for them", async (t) => {
  const { authenticator, client, sent } = open({ p: alice }, [
    ...uses("alice", "team"),
    "alice create cocoonsets team",
  ]);
  const sets = new TenantSets(client, authenticator.rights);
  const tenant = await authenticator.authenticate("team:p", t);
  await sets.create(tenant, { metadata: { name: "x" } }, t);
  await assert.rejects(sets.delete(tenant, { name: "x", uid: "1" }, t), refusal(403, /may not delete/));
  assert.deepEqual(
    sent.map(({ method, headers }) => [method, headers?.["impersonate-user"]]),
    [["POST", "system:serviceaccount:team:cocoon-sandbox"]],
  );
});

test("ports of machines ask for rights on the pod alone", async (t) => {
  const { authenticator } = open({ r: robot, p: alice }, ["alice get pods team"]);
  const pod = { group: "", resource: "pods", name: "web-0" };
  const read = { namespace: "team", rights: [{ ...pod, verb: "get" }] };
  assert.deepEqual(await authenticator.identify("r", t), { account: robot.username });
  assert.deepEqual(await authenticator.identify("p", t), { person: alice });
  await authenticator.rights.assert(alice, read, t);
  const reach = { ...read, rights: [{ ...pod, verb: "create", subresource: "portforward" }] };
  await assert.rejects(authenticator.rights.assert(alice, reach, t), refusal(403, /pods\/portforward/));
  await assert.rejects(authenticator.identify("unknown", t), refusal(401, /Invalid API key/));
});
