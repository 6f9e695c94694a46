/**
 * docs/migrating-from-go.md, command by command, on a cluster with the Go stack's manifests: our parts take them over in
 * place and keep what users had set, and afterwards the Go manifests take over again and their programs can run.
 */
import assert from "node:assert/strict";
import { cpSync, globSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { openKubeClient, type KubeConnection } from "@cocoon/kube";
import { ownControlPlane, temporaryDirectory, type OwnControlPlane } from "@cocoon/testkit";
import { runDocument } from "../../e2e/documented-commands.ts";
import { certManagerDefinitions } from "../../peers/cert-manager.ts";
import { runPods } from "./fake-cluster-pods.ts";
import { kustomize } from "./rendered.ts";

const { signal } = new AbortController();
const stack = new AsyncDisposableStack();
after(() => stack.disposeAsync());
let cluster: OwnControlPlane;
let connection: KubeConnection;
let env: Readonly<Record<string, string>>;

async function kubectl(...args: readonly string[]): Promise<string> {
  const ran = await cluster.kubectl(args);
  assert.equal(ran.code, 0, ran.stderr);
  return ran.stdout;
}

/** No Go webhook runs here: what the API server would send to it is let in. */
function copyGoStack(to: string): void {
  cpSync(join(import.meta.dirname, "go-stack"), to, { recursive: true });
  for (const path of globSync("**/configurations.yaml", { cwd: to })) {
    const text = readFileSync(join(to, path), "utf8");
    const lenient = text.replaceAll("failurePolicy: Fail", "failurePolicy: Ignore");
    writeFileSync(join(to, path), lenient.replaceAll("timeoutSeconds: 5", "timeoutSeconds: 1"));
  }
}

before(async () => {
  cluster = stack.use(await ownControlPlane());
  connection = stack.use(await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal }));
  const directory = stack.use(await temporaryDirectory());
  const goStack = join(directory.path, "go");
  copyGoStack(goStack);
  env = {
    HOME: directory.path,
    GO_STACK: goStack,
    KUBECONFIG: cluster.kubeconfigPath,
    PATH: `${dirname(cluster.binaries.kubectl)}:${process.env["PATH"] ?? ""}`,
  };
  const definitions = await certManagerDefinitions();
  await kubectl("apply", "--server-side", ...definitions.flatMap((path) => ["-f", path]));
  await kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all");
  stack.use(await runPods(connection, "cocoon-system"));
  await applyGoStack();
});

async function applyGoStack(): Promise<void> {
  for (const part of ["cocoon-webhook", "cocoon-operator"]) {
    await kubectl("apply", "-k", join(env["GO_STACK"] ?? "", part, "config/default"));
    await kubectl("-n=cocoon-system", "rollout", "status", `deployment/${part}`, "--timeout=60s");
  }
}

interface Installed {
  readonly metadata: { readonly uid: string };
  readonly rules?: readonly object[];
  readonly webhooks?: readonly { readonly name: string }[];
  readonly spec?: {
    readonly selector: object;
    readonly template: { readonly spec: { readonly containers: readonly Container[] } };
  };
}

interface Container {
  readonly image: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value?: string }[];
  readonly securityContext?: object;
}

async function get(kind: string, name: string): Promise<Installed> {
  const text = await kubectl("-n=cocoon-system", "get", kind, name, "-o=json");
  return JSON.parse(text) as Installed;
}

const getContainer = async (name: string): Promise<Container | undefined> =>
  (await get("deployment", name)).spec?.template.spec.containers[0];

/** Blocks of the page: before, definitions, webhook and operator; then the way back. */
const forward = [0, 5] as const;
const back = [5] as const;

test("our parts take the Go stack's objects over in place, by the documented commands", async () => {
  const names = ["serviceaccount/cocoon-operator", "service/cocoon-webhook", "clusterrole/cocoon-operator"];
  const readUids = () =>
    kubectl("-n=cocoon-system", "get", ...names, "-o=jsonpath={range .items[*]}{.metadata.uid} {end}");
  const uids = await readUids();
  await runDocument("docs/migrating-from-go.md", env, forward);
  assert.equal(await readUids(), uids, "nothing that other objects refer to was replaced");
  const rendered = await kustomize("deploy/webhook/overlays/cert-manager");
  for (const name of ["cocoon-operator", "cocoon-webhook"]) {
    const container = await getContainer(name);
    assert.equal(container?.image, "ghcr.io/cocoonstack/cocoon:0.1.0");
    assert.deepEqual(container.command, [name]);
    assert.equal(container.args, undefined, "no argument of the Go program is left");
    const registry = container.env?.find((each) => each.name === "OCI_REGISTRY");
    assert.equal(registry?.value, "registry.example.com/cocoon");
    assert.equal(container.env?.filter((each) => each.name === "OCI_REGISTRY").length, 1);
  }
  for (const [kind, name] of [
    ["MutatingWebhookConfiguration", "cocoon-webhook-mutate"],
    ["ValidatingWebhookConfiguration", "cocoon-webhook-validate"],
  ] as const) {
    const wanted = rendered.find((each) => each.kind === kind) as Partial<Installed> | undefined;
    const listNames = ({ webhooks = [] }: Partial<Installed>) => webhooks.map((each) => each.name).toSorted();
    assert.deepEqual(listNames(await get(kind, name)), listNames(wanted ?? {}));
  }
});

test("the Go stack takes everything back by the documented commands, and its programs can run", async () => {
  await runDocument("docs/migrating-from-go.md", env, back);
  for (const name of ["cocoon-operator", "cocoon-webhook"]) {
    const container = await getContainer(name);
    assert.equal(container?.image, `ghcr.io/cocoonstack/${name}:latest`);
    assert.equal(container.command, undefined, "our command would not start theirs");
    assert.equal(container.securityContext, undefined);
  }
  const { webhooks = [] } = await get("validatingwebhookconfiguration", "cocoon-webhook-validate");
  assert.deepEqual(webhooks.map(({ name }) => name).toSorted(), [
    "cocoonhibernations.validate.cocoonstack.io",
    "cocoonsets.validate.cocoonstack.io",
    "workloads.validate.cocoonstack.io",
  ]);
  const left = await kubectl("get", "validatingadmissionpolicy", "-o=name");
  assert.equal(left, "");
});

/** What the Go operator does, verb by verb. */
const rights: readonly { readonly group: string; readonly resource: string; readonly verbs: string }[] = [
  ...["cocoonsets", "cocoonhibernations"].flatMap((resource) => [
    {
      group: "cocoonset.cocoonstack.io",
      resource,
      verbs: "get list watch create update patch delete",
    },
    { group: "cocoonset.cocoonstack.io", resource: `${resource}/status`, verbs: "get update patch" },
    { group: "cocoonset.cocoonstack.io", resource: `${resource}/finalizers`, verbs: "update" },
  ]),
  { group: "", resource: "pods", verbs: "get list watch create update patch delete" },
  { group: "", resource: "pods/status", verbs: "get" },
  { group: "", resource: "configmaps", verbs: "get list watch create update patch delete" },
  { group: "coordination.k8s.io", resource: "leases", verbs: "get list watch create update patch delete" },
  { group: "", resource: "events", verbs: "create patch" },
];

test("the Go operator has its rights again", async () => {
  const refused: string[] = [];
  for (const { group, resource: path, verbs } of rights)
    for (const verb of verbs.split(" ")) {
      const [resource, subresource = ""] = path.split("/");
      const attributes = { namespace: "lab", verb, group, resource, subresource };
      const answer = await connection.raw({
        method: "POST",
        path: "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        body: {
          apiVersion: "authorization.k8s.io/v1",
          kind: "SubjectAccessReview",
          spec: {
            user: "system:serviceaccount:cocoon-system:cocoon-operator",
            resourceAttributes: attributes,
          },
        },
        signal,
      });
      const { status } = answer as { readonly status: { readonly allowed: boolean } };
      if (!status.allowed) refused.push(`${verb} ${path}`);
    }
  assert.deepEqual(refused, []);
});

test("a set with our status can be updated as a whole, as the Go operator does for its finalizer", async () => {
  const as = "--as=system:serviceaccount:cocoon-system:cocoon-operator";
  const set = {
    apiVersion: "cocoonset.cocoonstack.io/v1",
    kind: "CocoonSet",
    metadata: { name: "atlas", namespace: "default" },
    spec: { agent: { image: "team/base:v1" }, ttl: "1h" },
  };
  const created = await cluster.kubectl(["create", "-f", "-", "-o=json"], { input: JSON.stringify(set) });
  assert.equal(created.code, 0, created.stderr);
  const status = {
    phase: "Suspended",
    observedGeneration: 1,
    hibernatedMachines: 1,
    subAgents: 0,
    agents: [
      {
        slot: 0,
        role: "main",
        podName: "atlas-0",
        vmName: "vk-default-atlas-0",
        ready: false,
        lifecycleState: "hibernated",
        snapshotDigest: `sha256:${"a".repeat(64)}`,
      },
    ],
  };
  await kubectl(
    "patch",
    "cocoonsets.cocoonset.cocoonstack.io",
    "atlas",
    "--subresource=status",
    "--type=merge",
    `-p=${JSON.stringify({ status })}`,
  );
  // Its types know neither `ttl` nor what our status adds.
  const { metadata } = JSON.parse(created.stdout) as { readonly metadata: object };
  const typed = {
    ...set,
    metadata: { ...metadata, resourceVersion: undefined, finalizers: ["cocoonset.cocoonstack.io/finalizer"] },
    spec: { agent: { image: "team/base:v1", replicas: 0 } },
  };
  const replaced = await cluster.kubectl(["replace", as, "-f", "-"], { input: JSON.stringify(typed) });
  assert.equal(replaced.code, 0, replaced.stderr);
  const agents = [
    { slot: 0, role: "main", podName: "atlas-0", vmName: "vk-default-atlas-0", phase: "Running" },
  ];
  await kubectl(
    "patch",
    as,
    "cocoonsets.cocoonset.cocoonstack.io",
    "atlas",
    "--subresource=status",
    "--type=merge",
    `-p=${JSON.stringify({ status: { phase: "Running", agents } })}`,
  );
});
