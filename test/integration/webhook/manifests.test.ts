/** What deploy/webhook installs, as kubectl builds it. That an API server takes it is shown by every other test here. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, test } from "node:test";
import { runCommand, testBinaries } from "@cocoon/testkit";
import { parseAllDocuments } from "yaml";

interface Rule {
  readonly resources: readonly string[];
  readonly verbs: readonly string[];
  readonly apiGroups: readonly string[];
}

interface Webhook {
  readonly name: string;
  readonly failurePolicy: string;
  readonly timeoutSeconds: number;
  readonly matchConditions?: readonly object[];
  readonly rules: readonly { readonly scope: string }[];
}

interface PodSpec {
  readonly securityContext: { readonly runAsNonRoot: boolean };
  readonly affinity: object;
  readonly containers: readonly {
    readonly securityContext: object;
    readonly env?: readonly { readonly name: string; readonly value?: string }[];
    readonly volumeMounts?: readonly { readonly mountPath: string }[];
  }[];
}

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly annotations?: Readonly<Record<string, string>> };
  readonly rules?: readonly Rule[];
  readonly webhooks?: readonly Webhook[];
  readonly spec?: { readonly replicas?: number; readonly template?: { readonly spec: PodSpec } };
}

async function build(overlay: string): Promise<Manifest[]> {
  const { kubectl } = await testBinaries();
  const path = join(import.meta.dirname, "../../../deploy/webhook/overlays", overlay);
  const built = await runCommand(kubectl, ["kustomize", path]);
  assert.equal(built.code, 0, built.stderr);
  return parseAllDocuments(built.stdout).map((document) => document.toJS() as Manifest);
}

for (const overlay of ["built-in-certificates", "cert-manager"])
  describe(`overlay ${overlay}`, () => {
    test("two non-root replicas apart from each other, which may not all go at once", async () => {
      const manifests = await build(overlay);
      const kinds = manifests.map(({ kind }) => kind);
      for (const kind of ["PodDisruptionBudget", "NetworkPolicy", "Service", "ServiceAccount"])
        assert.ok(kinds.includes(kind), kind);
      const { spec } = manifests.find(({ kind }) => kind === "Deployment") ?? {};
      assert.equal(spec?.replicas, 2);
      const pod = spec.template?.spec;
      assert.equal(pod?.securityContext.runAsNonRoot, true);
      assert.ok("podAntiAffinity" in pod.affinity);
      assert.deepEqual(pod.containers[0]?.securityContext, {
        allowPrivilegeEscalation: false,
        readOnlyRootFilesystem: true,
        capabilities: { drop: ["ALL"] },
      });
    });

    test("rights are named one by one", async () => {
      const rules = (await build(overlay)).flatMap((manifest) =>
        manifest.webhooks ? [] : (manifest.rules ?? []),
      );
      assert.ok(rules.length > 0);
      for (const { resources, verbs, apiGroups } of rules)
        assert.ok(
          ![...resources, ...verbs, ...apiGroups].includes("*"),
          JSON.stringify({ resources, verbs }),
        );
    });

    test("every webhook has a time, fails closed, is namespaced; pods and workloads are filtered", async () => {
      const webhooks = (await build(overlay)).flatMap((manifest) => manifest.webhooks ?? []);
      assert.deepEqual(webhooks.map(({ name }) => name).toSorted(), [
        "cocoonhibernations.validate.cocoonstack.io",
        "cocoonsets.validate.cocoonstack.io",
        "pods.mutate.cocoonstack.io",
        "scales.validate.cocoonstack.io",
        "workloads.mutate.cocoonstack.io",
        "workloads.validate.cocoonstack.io",
      ]);
      for (const { name, failurePolicy, timeoutSeconds, rules, matchConditions } of webhooks) {
        assert.equal(failurePolicy, "Fail");
        assert.ok(timeoutSeconds <= 10);
        assert.ok(rules.every(({ scope }) => scope === "Namespaced"));
        assert.equal(matchConditions !== undefined, !name.startsWith("cocoon"), name);
      }
    });
  });

test("certificates come from cert-manager, or from the webhook itself", async () => {
  const withManager = await build("cert-manager");
  const configurations = withManager.filter(({ webhooks }) => webhooks);
  assert.equal(configurations.length, 2);
  for (const { metadata } of configurations)
    assert.equal(
      metadata.annotations?.["cert-manager.io/inject-ca-from"],
      "cocoon-system/cocoon-webhook-tls",
    );
  const findContainer = (manifests: readonly Manifest[]) =>
    manifests.find(({ kind }) => kind === "Deployment")?.spec?.template?.spec.containers[0];
  assert.equal(findContainer(withManager)?.volumeMounts?.[0]?.mountPath, "/etc/cocoon/webhook/certs");
  const own = findContainer(await build("built-in-certificates"));
  assert.equal(own?.env?.find(({ name }) => name === "WEBHOOK_CERTIFICATES")?.value, "built-in");
});
