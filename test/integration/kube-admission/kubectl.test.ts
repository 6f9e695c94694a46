/** A real kubectl against a real API server that calls our webhooks by URL. */
import assert from "node:assert/strict";
import { test, type TestContext } from "node:test";
import {
  allow,
  allowWithPatch,
  deny,
  startAdmissionServer,
  type AdmissionEndpoint,
  type AdmissionRequest,
  type TimeLimits,
} from "@cocoon/kube/admission";
import { eventually, sharedControlPlane } from "@cocoon/testkit";
import type { BundleTarget } from "@cocoon/kube/certificates";
import { startRoundRobinProxy } from "./round-robin-proxy.ts";
import {
  assertDone,
  labelPatch,
  register,
  openTestClient,
  startCertificates,
  testLog,
  type RegistrationOptions,
} from "./webhooks.ts";

type Kind = RegistrationOptions["kind"];

async function setUp(
  t: TestContext,
  endpoints: Readonly<Record<string, AdmissionEndpoint & { readonly kind: Kind }>>,
  { time, ...options }: Partial<RegistrationOptions> & { readonly time?: Partial<TimeLimits> } = {},
) {
  const cluster = await sharedControlPlane();
  const stack = new AsyncDisposableStack();
  t.after(() => stack.disposeAsync());
  const namespace = stack.use(await cluster.newNamespace()).name;
  const client = stack.use(await openTestClient(cluster));
  const proxy = stack.use(await startRoundRobinProxy());
  const targets: BundleTarget[] = [];
  for (const kind of ["mutating", "validating"] as const) {
    const names = Object.keys(endpoints).filter((name) => endpoints[name]?.kind === kind);
    if (names.length === 0) continue;
    const urls = Object.fromEntries(names.map((name) => [name, `${proxy.url}/${name}`]));
    targets.push(stack.use(await register({ client, kind, namespace, urls, ...options })).target);
  }
  const certificates = stack.use(await startCertificates({ client, namespace, targets }));
  const server = stack.use(
    await startAdmissionServer({
      host: "127.0.0.1",
      port: 0,
      certificates,
      lameDuckMs: 0,
      log: testLog,
      ...(time && { time }),
      endpoints: Object.fromEntries(
        Object.entries(endpoints).map(([name, endpoint]) => [`/${name}`, endpoint]),
      ),
    }),
  );
  proxy.addServer(server.port);
  await eventually(async () => assert.equal(await server.readiness(), undefined), { timeoutMs: 60_000 });
  const kubectl = (args: readonly string[], input?: object) =>
    cluster.kubectl(["-n", namespace, ...args], input ? { input: JSON.stringify(input) } : {});
  return { kubectl, namespace };
}

const configMap = (name: string, data: Readonly<Record<string, string>> = {}) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name },
  data,
});

const apply = ["apply", "-f", "-"];

test("kubectl is patched, warned, denied, and shown which fields are wrong", async (t) => {
  const { kubectl } = await setUp(t, {
    label: {
      kind: "mutating",
      name: "label",
      handler: async ({ object, userInfo }) =>
        allowWithPatch(
          [
            ...labelPatch(object, { seen: "yes" }),
            { op: "add", path: "/metadata/annotations", value: { "example.com/by-whom": userInfo.username } },
          ],
          { warnings: ["labelled for you", "zweite Zeile: ünïcode"], auditAnnotations: { rule: "label" } },
        ),
    },
    judge: {
      kind: "validating",
      name: "judge",
      handler: ({ name }) => {
        if (name === "forbidden") return deny("configmaps may not be called forbidden; choose another name");
        if (name === "teapot") return deny("short and stout", { code: 418, reason: "Teapot" });
        if (name !== "invalid") return allow();
        const causes = [
          { field: "data.size", message: "must be a number", reason: "FieldValueInvalid" },
          { field: "data.color", message: "must be set", reason: "FieldValueRequired" },
        ];
        const message = causes.map((cause) => `${cause.field}: ${cause.message}`).join("; ");
        return deny(message, { code: 422, reason: "Invalid", causes });
      },
    },
  });

  const made = await kubectl(apply, configMap("good", { a: "1" }));
  assertDone(made);
  assert.equal(made.stdout, "configmap/good created\n");
  assert.match(made.stderr, /^Warning: labelled for you$/m);
  assert.match(made.stderr, /^Warning: zweite Zeile: ünïcode$/m);
  const stored = JSON.parse((await kubectl(["get", "configmap", "good", "-o", "json"])).stdout) as {
    metadata: { labels: object; annotations: Record<string, string> };
    data: object;
  };
  assert.deepEqual(stored.metadata.labels, { seen: "yes" });
  assert.equal(stored.metadata.annotations["example.com/by-whom"], "cocoon-admin");
  assert.deepEqual(stored.data, { a: "1" });

  const refused = await kubectl(apply, configMap("forbidden"));
  assert.equal(refused.code, 1);
  assert.match(
    refused.stderr,
    /Error from server \(Forbidden\): .*admission webhook "judge\.example\.com" denied the request: configmaps may not be called forbidden; choose another name/,
  );
  const teapot = await kubectl(["create", "-v=8", "-f", "-"], configMap("teapot"));
  assert.equal(teapot.code, 1);
  assert.match(teapot.stderr, /status="418 I'm a teapot"|"code":418/);
  const invalid = await kubectl(apply, configMap("invalid"));
  assert.equal(invalid.code, 1);
  assert.match(invalid.stderr, /The ConfigMap "invalid" is invalid/);
  assert.match(invalid.stderr, /data\.size: must be a number/);
  assert.match(invalid.stderr, /data\.color: must be set/);
  const left = await kubectl(["get", "configmap", "-o", "name"]);
  assert.deepEqual(
    left.stdout.split("\n").filter((name) => /good|forbidden|teapot|invalid/.test(name)),
    ["configmap/good"],
  );
});

test("a handler sees who requests what, with which old object, and whether it is a dry run", async (t) => {
  const seen: AdmissionRequest[] = [];
  const { kubectl, namespace } = await setUp(
    t,
    { look: { kind: "validating", name: "look", handler: (request) => void seen.push(request) } },
    { operations: ["*"] },
  );
  const named = (name: string) => seen.filter((request) => request.name === name);
  assertDone(await kubectl(["create", "--dry-run=server", "-f", "-"], configMap("dry")));
  assert.equal((await kubectl(["get", "configmap", "dry"])).code, 1);
  assert.deepEqual(
    named("dry").map(({ dryRun, operation }) => [dryRun, operation]),
    [[true, "CREATE"]],
  );

  assertDone(await kubectl(["create", "-f", "-"], configMap("wet", { a: "1" })));
  assertDone(await kubectl(["patch", "configmap", "wet", "-p", '{"data":{"a":"2"}}']));
  assertDone(await kubectl(["delete", "configmap", "wet"]));
  const [create, update, remove] = named("wet");
  assert.equal(named("wet").length, 3);
  assert.deepEqual(create?.kind, { group: "", version: "v1", kind: "ConfigMap" });
  assert.deepEqual(create?.resource, { group: "", version: "v1", resource: "configmaps" });
  assert.equal(create?.namespace, namespace);
  assert.equal(create?.userInfo.username, "cocoon-admin");
  assert.ok(create?.userInfo.groups.includes("system:masters"));
  assert.equal(create?.dryRun, false);
  assert.equal(create?.oldObject, undefined);
  assert.deepEqual(
    [update?.operation, update?.oldObject?.["data"], update?.object?.["data"]],
    ["UPDATE", { a: "1" }, { a: "2" }],
  );
  assert.deepEqual(
    [remove?.operation, remove?.oldObject?.["data"], remove?.object],
    ["DELETE", { a: "2" }, undefined],
  );
});

test("a handler that fails or is late ends as the webhook's policies say, within the API server's timeout", async (t) => {
  const never = () => new Promise<undefined>(() => undefined);
  const { kubectl } = await setUp(
    t,
    {
      fate: {
        kind: "validating",
        name: "fate",
        handler: ({ name }) => {
          if (name === "late") return never();
          if (name === "broken") throw new Error("the inside of the vault");
          return undefined;
        },
      },
    },
    { timeoutSeconds: 10, time: { share: 0.1 } },
  );
  assertDone(await kubectl(apply, configMap("fine")));
  const late = await kubectl(apply, configMap("late"));
  assert.match(
    late.stderr,
    /admission webhook "fate\.example\.com" denied the request: fate: no decision within 1 s/,
  );
  const broken = await kubectl(apply, configMap("broken"));
  assert.equal(broken.code, 1);
  assert.match(broken.stderr, /failed calling webhook "fate\.example\.com"/);
  assert.doesNotMatch(broken.stderr, /vault/);
});

test("an object as large as the API server takes passes through whole", async (t) => {
  let size = 0;
  const { kubectl } = await setUp(t, {
    weigh: {
      kind: "mutating",
      name: "weigh",
      handler: ({ object }) => {
        size = JSON.stringify(object).length;
        return allowWithPatch(labelPatch(object, { weighed: "yes" }));
      },
    },
  });
  const made = await kubectl(["create", "-f", "-"], configMap("heavy", { blob: "é".repeat(500_000) }));
  assertDone(made);
  assert.ok(size > 500_000);
  const labels = await kubectl(["get", "configmap", "heavy", "-o", "jsonpath={.metadata.labels.weighed}"]);
  assert.equal(labels.stdout, "yes");
});
