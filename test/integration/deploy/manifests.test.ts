/**
 * Everything that deploy/ and config/ render to is taken by a real API server: server-side dry run, unknown fields
 * refused, with cert-manager's own definitions installed.
 */
import assert from "node:assert/strict";
import { globSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { openKubeClient, secrets } from "@cocoon/kube";
import { eventually, fullTierOnly, ownControlPlane, runCommand, type OwnControlPlane } from "@cocoon/testkit";
import { installInto } from "../../../packages/cli/src/external-install.ts";
import { readIdentity, type Manifest } from "../../../scripts/generate/kustomize.ts";
import { certManagerDefinitions } from "../../peers/cert-manager.ts";
import { buildHelm } from "../../peers/helm.ts";
import {
  byIdentity,
  canonical,
  file,
  helmTemplate,
  helmText,
  kustomize,
  kustomizeRoots,
  root,
  samples,
  version,
} from "./rendered.ts";

let cluster: OwnControlPlane;
before(async () => {
  cluster = await ownControlPlane();
  // Objects can be tried only where their kind is defined and their namespace is there.
  const definitions = file("deploy/install.yaml").filter(({ kind }) =>
    ["Namespace", "CustomResourceDefinition"].includes(kind),
  );
  const files = (await certManagerDefinitions()).concat(`${root}/deploy/crd.yaml`);
  const applied = await Promise.all([
    apply(definitions),
    cluster.kubectl(["apply", "--server-side", ...files.flatMap((path) => ["-f", path])]),
  ]);
  for (const { code, stderr } of applied) assert.equal(code, 0, stderr);
  const waited = await cluster.kubectl([
    "wait",
    "--for=condition=Established",
    "--timeout=60s",
    "crd",
    "--all",
  ]);
  assert.equal(waited.code, 0, waited.stderr);
});
after(() => cluster[Symbol.asyncDispose]());

function apply(objects: readonly Manifest[], ...flags: readonly string[]) {
  return cluster.kubectl(["apply", "--server-side", "--validate=strict", ...flags, "-f", "-"], {
    input: JSON.stringify({ apiVersion: "v1", kind: "List", items: objects }),
  });
}

/** The bytes that are shipped, not a parsed copy: kubectl reads YAML 1.1, the parser of these tests reads 1.2. */
async function assertTaken(source: readonly string[], input?: string): Promise<void> {
  const tried = await cluster.kubectl(
    ["apply", "--server-side", "--force-conflicts", "--validate=strict", "--dry-run=server", ...source],
    input === undefined ? {} : { input },
  );
  assert.equal(tried.code, 0, tried.stderr);
  // The namespaces warn about pods that they would not let in.
  assert.doesNotMatch(tried.stderr, /PodSecurity|deprecated|unknown field/);
  assert.notEqual(tried.stdout.trim(), "", "something was applied");
}

/** Every file of manifests that people may apply by itself. */
const files = globSync("deploy/**/*.yaml", { cwd: root })
  .filter((path) => !/kustomization|helm\/|monitoring\/|components\//.test(path))
  .toSorted();

describe("the API server takes", () => {
  for (const directory of kustomizeRoots) test(directory, () => assertTaken(["-k", join(root, directory)]));

  for (const path of files) test(path, () => assertTaken(["-f", join(root, path)]));

  const chartSettings = {
    "as it is": [],
    "with cert-manager and the older API": [
      "--set=webhook.certificates=cert-manager,colocation.certificates=cert-manager",
      "--set=registry.tls=cert-manager,legacy.enabled=true",
    ],
    "with agent-sandbox": ["--set=agentSandbox.enabled=true,gateway.enabled=true"],
    "with every list filled": [
      "--set-string=imagePullSecrets[0].name=pull,operator.env[0].name=COCOONSET_CONCURRENCY,operator.env[0].value=8",
      "--set=webhook.nodeSelector.zone=a,registry.tolerations[0].operator=Exists,registry.storage.className=fast",
    ],
  };
  for (const [how, settings] of Object.entries(chartSettings))
    test(`the Helm chart ${how}`, async () => assertTaken(["-f", "-"], await helmText(...settings)));

  test("nothing with a field that it does not know", async () => {
    const [sample] = samples().flatMap(({ objects }) => objects);
    assert.ok(sample);
    const tried = await apply([{ ...sample, spce: {} }], "--dry-run=server");
    assert.notEqual(tried.code, 0);
    assert.match(tried.stderr, /spce/);
  });
});

describe("single files", () => {
  const roots = { "deploy/install.yaml": "config/default", "deploy/deploy.yaml": "config/legacy" };
  for (const [path, directory] of Object.entries(roots))
    test(`${path} is what kustomize makes of ${directory}`, async () => {
      assert.deepEqual(byIdentity(file(path)), byIdentity(await kustomize(directory)));
    });

  test("install.yaml puts what others refer to first", () => {
    const kinds = file("deploy/install.yaml").map(({ kind }) => kind);
    const last = (kind: string) => kinds.lastIndexOf(kind);
    assert.ok(last("Namespace") < kinds.indexOf("CustomResourceDefinition"));
    assert.ok(last("CustomResourceDefinition") < kinds.indexOf("Deployment"));
    assert.ok(last("ServiceAccount") < kinds.indexOf("Deployment"));
  });
});

describe("the Helm chart", () => {
  test("installs what install.yaml installs", async () => {
    const chart = (await helmTemplate()).map(readIdentity);
    const wanted = file("deploy/install.yaml").map(readIdentity);
    // Helm makes the namespace itself; the file leaves the token to its reader.
    assert.deepEqual(
      new Set(wanted).symmetricDifference(new Set(chart)),
      new Set(["v1/Namespace//cocoon-system", "v1/Secret/cocoon-system/epoch-token"]),
    );
  });

  test("serves agent-sandbox where it is asked to", async () => {
    const identity = "apiextensions.k8s.io/v1/CustomResourceDefinition//sandboxes.agents.x-k8s.io";
    assert.ok(!(await helmTemplate()).map(readIdentity).includes(identity), "off by default");
    const chart = await helmTemplate("--set=agentSandbox.enabled=true,gateway.enabled=true");
    assert.ok(chart.map(readIdentity).includes(identity));
    const deployed = findDeployments(chart).map((each) => canonical(each));
    assert.equal(deployed.filter((text) => text.includes('"name":"AGENT_SANDBOX","value":"true"')).length, 1);
    const router = '"name":"GATEWAY_SANDBOX_ROUTER_ADDR","value":":8081"';
    assert.equal(deployed.filter((text) => text.includes(router)).length, 1);
  });

  test("passes its values on", async () => {
    const chart = await helmTemplate(
      "--set=image.repository=example.com/cocoon,image.tag=9.9.9,operator.replicas=5,colocation.enabled=false,dashboard.enabled=false",
      "--set=ociRegistry=registry.example.com/x,registry.enabled=false",
    );
    assert.deepEqual([...listImages(chart)], ["example.com/cocoon:9.9.9"]);
    const [operator, webhook, ...others] = findDeployments(chart);
    assert.deepEqual([operator?.spec.replicas, webhook?.spec.replicas, others.length], [5, 2, 0]);
    for (const deployment of [operator, webhook])
      assert.match(canonical(deployment), /"name":"OCI_REGISTRY","value":"registry.example.com\/x"/);
  });

  test("refuses a value that means nothing", async () => {
    await assert.rejects(helmTemplate("--set=webhook.certificates=none"), /certificates/);
  });
});

interface PodTemplate extends Manifest {
  readonly spec: {
    readonly replicas: number;
    readonly template: { readonly spec: { readonly containers: readonly { readonly image: string }[] } };
  };
}

function findDeployments(objects: readonly Manifest[]): PodTemplate[] {
  return objects.filter((object): object is PodTemplate => object.kind === "Deployment");
}

function listImages(objects: readonly Manifest[]): Set<string> {
  return new Set(
    findDeployments(objects).flatMap(({ spec }) => spec.template.spec.containers.map(({ image }) => image)),
  );
}

test("the registry of an installation is reached by TLS only", async () => {
  for (const directory of ["config/default", "config/cert-manager"]) {
    const text = canonical(await kustomize(directory));
    assert.match(text, /"https:\/\/epoch\.cocoon-system\.svc:8443"/, directory);
    assert.doesNotMatch(text, /http:\/\/epoch|--plain-http/, directory);
  }
});

test("a registry that a user has set survives an installation, and old selectors find the parts", async () => {
  const path = join(root, "deploy/install.yaml");
  const run = async (...args: readonly string[]) => {
    const ran = await cluster.kubectl([...args]);
    assert.equal(ran.code, 0, ran.stderr);
    return ran.stdout;
  };
  await run("apply", "--server-side", "-f", path);
  await run(
    "-n=cocoon-system",
    "set",
    "env",
    "deployment/cocoon-operator",
    "OCI_REGISTRY=registry.example.com/mine",
  );
  await run("apply", "--server-side", "-f", path);
  const env = await run("-n=cocoon-system", "get", "deployment", "cocoon-operator", "-o=jsonpath={..env}");
  assert.match(env, /"name":"OCI_REGISTRY","value":"registry\.example\.com\/mine"/);
  for (const part of ["cocoon-operator", "cocoon-webhook"])
    assert.equal(
      (await run("-n=cocoon-system", "get", "deployments", `-l=app=${part}`, "-o=name")).trim(),
      `deployment.apps/${part}`,
    );
});

test("install.yaml can be applied again and again", async () => {
  const objects = file("deploy/install.yaml");
  const path = join(root, "deploy/install.yaml");
  for (const time of ["first", "second"]) {
    const applied = await cluster.kubectl(["apply", "--server-side", "--force-conflicts", "-f", path]);
    assert.equal(applied.code, 0, `${time}: ${applied.stderr}`);
  }
  const deployments = await cluster.kubectl(["get", "deployments", "-A", "-o", "name"]);
  assert.deepEqual(
    deployments.stdout.trim().split("\n").toSorted(),
    findDeployments(objects)
      .map(({ metadata }) => `deployment.apps/${metadata.name}`)
      .toSorted(),
  );
});

/** What clients show to the registry. */
async function token(): Promise<string> {
  const found = await cluster.kubectl([
    "get",
    "secret",
    "epoch-token",
    "-n=cocoon-system",
    "-o=jsonpath={.data.token}",
  ]);
  return Buffer.from(found.stdout, "base64").toString();
}

test("a cluster that exists gets everything by one call, which may be repeated", async () => {
  const signal = AbortSignal.timeout(120_000);
  await using client = await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal });
  const told: string[] = [];
  await installInto(client, { signal, report: (text) => void told.push(text) });
  assert.deepEqual(told.length, file("deploy/install.yaml").length + 1, told.join("\n"));
  const made = await token();
  assert.match(made, /^[0-9a-f]{64}$/);
  await installInto(client, { signal, report: () => undefined });
  assert.equal(await token(), made);
  await client.delete(secrets, { namespace: "cocoon-system", name: "epoch-token" }, { signal });
});

const helmLife = fullTierOnly("a real install, upgrade and uninstall; what is installed is compared above");
test("Helm takes the installation over, keeps the token, and leaves data behind", helmLife, async () => {
  const helm = await buildHelm();
  const chart = join(root, "deploy/helm/cocoon");
  const run = async (...args: readonly string[]) => {
    const env = { KUBECONFIG: cluster.kubeconfigPath, HELM_CACHE_HOME: cluster.layout.directory };
    const ran = await runCommand(helm, [...args, "--namespace=cocoon-system"], { env });
    assert.equal(ran.code, 0, ran.stderr);
  };
  await run("install", "cocoon", chart, "--take-ownership", "--force-conflicts");
  const made = await token();
  assert.match(made, /^\w{48}$/);
  await run("upgrade", "cocoon", chart, "--force-conflicts", "--set=operator.replicas=3");
  assert.equal(await token(), made);
  const replicas = await cluster.kubectl([
    "get",
    "deployment",
    "cocoon-operator",
    "-n=cocoon-system",
    "-o=jsonpath={.spec.replicas}",
  ]);
  assert.equal(replicas.stdout, "3");
  await run("uninstall", "cocoon");
  const left = await cluster.kubectl(["get", "crd,pvc,secret,deployments", "-n=cocoon-system", "-o=name"]);
  assert.match(left.stdout, /cocoonsets\.cocoonset/);
  assert.match(left.stdout, /persistentvolumeclaim\/epoch/);
  assert.equal(await token(), made);
  assert.doesNotMatch(left.stdout, /deployment/);
});

test("all parts run the one image of this version, and the example overlay changes tag and replicas", async () => {
  assert.deepEqual([...listImages(file("deploy/install.yaml"))], [`ghcr.io/cocoonstack/cocoon:${version()}`]);
  const example = await kustomize("config/example");
  assert.deepEqual([...listImages(example)], ["registry.example.com/mirror/cocoon:0.1.1"]);
  const replicas = Object.fromEntries(
    findDeployments(example).map(({ metadata, spec }) => [metadata.name, spec.replicas]),
  );
  assert.deepEqual(replicas, {
    "cocoon-colocation": 2,
    "cocoon-dashboard": 1,
    "cocoon-operator": 3,
    "cocoon-webhook": 3,
    epoch: 1,
  });
});

test("the legacy installation has the older API's rights, and neither installation repeats an object", () => {
  const legacy = file("deploy/deploy.yaml").map(readIdentity);
  assert.ok(legacy.includes("rbac.authorization.k8s.io/v1/ClusterRole//cocoon-operator-legacy"));
  for (const identities of [legacy, file("deploy/install.yaml").map(readIdentity)])
    assert.equal(new Set(identities).size, identities.length);
});

test("deploy.yaml is installed by the commands on its first lines, and removed", async () => {
  const paths = ["crd", "cocoonset-crd", "deploy"].flatMap((name) => [
    "-f",
    join(root, `deploy/${name}.yaml`),
  ]);
  const applied = await cluster.kubectl(["apply", "--server-side", "--force-conflicts", ...paths]);
  assert.equal(applied.code, 0, applied.stderr);
  const found = await cluster.kubectl([
    "-n=cocoon-system",
    "get",
    "deployment",
    "cocoon-operator",
    "-o=jsonpath={..env}",
  ]);
  assert.match(found.stdout, /"name":"LEGACY_API","value":"on"/);
  const path = join(root, "deploy/deploy.yaml");
  const removed = await cluster.kubectl(["delete", "--wait=false", "-f", path]);
  assert.equal(removed.code, 0, removed.stderr);
  const readLeft = () => cluster.kubectl(["get", "--ignore-not-found", "-o=name", "-f", path]);
  await eventually(async () => assert.equal((await readLeft()).stdout, ""), { timeoutMs: 60_000 });
});
