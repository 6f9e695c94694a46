/**
 * Everything that deploy/ and config/ render to is taken by a real API server: server-side dry run, unknown fields
 * refused, with cert-manager's own definitions installed.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { openKubeClient, secrets } from "@cocoon/kube";
import { fullTierOnly, ownControlPlane, runCommand, type OwnControlPlane } from "@cocoon/testkit";
import { installInto } from "../../../packages/cli/src/external-install.ts";
import { identityOf, type Manifest } from "../../../scripts/generate/kustomize.ts";
import { certManagerDefinitions } from "../../peers/cert-manager.ts";
import { buildHelm } from "../../peers/helm.ts";
import {
  byIdentity,
  canonical,
  file,
  helmTemplate,
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

/** Objects that the server took already; the same object is part of many roots. */
const taken = new Set<string>();

async function assertTaken(objects: readonly Manifest[]): Promise<void> {
  assert.ok(objects.length > 0);
  const fresh = objects.filter((object) => !taken.has(canonical(object)));
  if (fresh.length === 0) return;
  const tried = await apply(fresh, "--dry-run=server");
  assert.equal(tried.code, 0, tried.stderr);
  // The namespaces warn about pods that they would not let in.
  assert.doesNotMatch(tried.stderr, /PodSecurity|deprecated|unknown field/);
  assert.equal(tried.stdout.trim().split("\n").length, fresh.length, tried.stdout);
  for (const object of fresh) taken.add(canonical(object));
}

describe("the API server takes", () => {
  for (const directory of kustomizeRoots)
    test(directory, async () => assertTaken(await kustomize(directory)));

  const chartSettings = {
    "as it is": [],
    "with cert-manager and the older API": [
      "--set=webhook.certificates=cert-manager,colocation.certificates=cert-manager",
      "--set=registry.tls=cert-manager,legacy.enabled=true",
    ],
    "with every list filled": [
      "--set-string=imagePullSecrets[0].name=pull,operator.env[0].name=COCOONSET_CONCURRENCY,operator.env[0].value=8",
      "--set=webhook.nodeSelector.zone=a,registry.tolerations[0].operator=Exists,registry.storage.className=fast",
    ],
  };
  for (const [how, settings] of Object.entries(chartSettings))
    test(`the Helm chart ${how}`, async () => assertTaken(await helmTemplate(...settings)));

  for (const { name, objects } of samples()) test(`deploy/samples/${name}`, () => assertTaken(objects));

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
    const chart = (await helmTemplate()).map(identityOf);
    const wanted = file("deploy/install.yaml").map(identityOf);
    // Helm makes the namespace itself; the file leaves the token to its reader.
    assert.deepEqual(
      new Set(wanted).symmetricDifference(new Set(chart)),
      new Set(["v1/Namespace//cocoon-system", "v1/Secret/cocoon-system/epoch-token"]),
    );
  });

  test("passes its values on", async () => {
    const chart = await helmTemplate(
      "--set=image.repository=example.com/cocoon,image.tag=9.9.9,operator.replicas=5,colocation.enabled=false",
      "--set=ociRegistry=registry.example.com/x,registry.enabled=false",
    );
    assert.deepEqual([...imagesOf(chart)], ["example.com/cocoon:9.9.9"]);
    const [operator, webhook, ...others] = deploymentsOf(chart);
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

function deploymentsOf(objects: readonly Manifest[]): PodTemplate[] {
  return objects.filter((object): object is PodTemplate => object.kind === "Deployment");
}

function imagesOf(objects: readonly Manifest[]): Set<string> {
  return new Set(
    deploymentsOf(objects).flatMap(({ spec }) => spec.template.spec.containers.map(({ image }) => image)),
  );
}

test("install.yaml can be applied again and again", async () => {
  const objects = file("deploy/install.yaml");
  for (const time of ["first", "second"]) {
    const applied = await apply(objects);
    assert.equal(applied.code, 0, `${time}: ${applied.stderr}`);
  }
  const deployments = await cluster.kubectl(["get", "deployments", "-A", "-o", "name"]);
  assert.deepEqual(
    deployments.stdout.trim().split("\n").toSorted(),
    deploymentsOf(objects)
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
  await installInto(client, { signal, tell: (text) => void told.push(text) });
  assert.deepEqual(told.length, file("deploy/install.yaml").length + 1, told.join("\n"));
  const made = await token();
  assert.match(made, /^[0-9a-f]{64}$/);
  await installInto(client, { signal, tell: () => undefined });
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
  assert.deepEqual([...imagesOf(file("deploy/install.yaml"))], [`ghcr.io/cocoonstack/cocoon:${version()}`]);
  const example = await kustomize("config/example");
  assert.deepEqual([...imagesOf(example)], ["registry.example.com/mirror/cocoon:0.1.1"]);
  const replicas = Object.fromEntries(
    deploymentsOf(example).map(({ metadata, spec }) => [metadata.name, spec.replicas]),
  );
  assert.deepEqual(replicas, {
    "cocoon-colocation": 2,
    "cocoon-operator": 3,
    "cocoon-webhook": 3,
    epoch: 1,
  });
});

test("the legacy installation has the older API's rights, and neither installation repeats an object", () => {
  const legacy = file("deploy/deploy.yaml").map(identityOf);
  assert.ok(legacy.includes("rbac.authorization.k8s.io/v1/ClusterRole//cocoon-operator-legacy"));
  for (const identities of [legacy, file("deploy/install.yaml").map(identityOf)])
    assert.equal(new Set(identities).size, identities.length);
});
