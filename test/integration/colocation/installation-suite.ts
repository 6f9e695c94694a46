/** The installation as it is shipped: its manifests, its rights, its executable, its debug pages and its checks. */
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import https from "node:https";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { customResourceDefinitions, pods } from "@cocoon/kube";
import { reservePort, type ReservedPort } from "@cocoon/controlplane";
import { checkColocation, profiles } from "@cocoon/colocation";
import { readDefinitions } from "@cocoon/colocation/testing/manifests";
import { eventually, temporaryDirectory, type TemporaryDirectory } from "@cocoon/testkit";
import {
  assertDone,
  signal,
  sharedCluster,
  unregister,
  startReplica,
  testSettings,
  type ColocationCluster,
} from "./cluster.ts";

export function installation(): void {
  describe("the installation as it is shipped", () => {
    const names = { mutating: "cocoon-colocation-mutating", validating: "cocoon-colocation-validating" };

    const root = join(import.meta.dirname, "../../..");
    const namespace = "cocoon-colocation";
    let world: ColocationCluster;
    let directory: TemporaryDirectory;
    let child: ChildProcess | undefined;
    let output = "";
    let reserved: ReservedPort;

    before(async () => {
      reserved = await reservePort();
      world = await sharedCluster();
      directory = await temporaryDirectory();
    });

    after(async () => {
      await reserved[Symbol.asyncDispose]();
      await unregister(world.client, names);
      if (child && child.exitCode === null) {
        const exited = once(child, "exit");
        child.kill("SIGTERM");
        await exited;
      }
      await directory?.[Symbol.asyncDispose]();
    });

    const kubectl = (...args: readonly string[]) => world.cluster.kubectl(args);

    test("the kustomization applies, and applying it again changes nothing", async () => {
      assertDone(
        await kubectl("apply", "--server-side", "--force-conflicts", "-k", join(root, "deploy/colocation")),
      );
      const again = await kubectl("apply", "--server-side", "-k", join(root, "deploy/colocation"));
      assertDone(again);
      // There is no kubelet here; the executable below takes the place of the Deployment.
      assertDone(await kubectl("-n", namespace, "delete", "deployment", "cocoon-colocation"));
    });

    async function createToken(usage: string): Promise<string> {
      const made = await kubectl("-n", namespace, "create", "token", usage);
      assertDone(made);
      return made.stdout.trim();
    }

    /** A kubeconfig that has the token and nothing else. */
    async function writeKubeconfig(usage: string): Promise<string> {
      const file = join(directory.path, `${usage}.kubeconfig`);
      const certificate = /certificate-authority-data: (\S+)/.exec(world.cluster.kubeconfig)?.[1];
      const authority = /certificate-authority: (\S+)/.exec(world.cluster.kubeconfig)?.[1];
      const trust = certificate
        ? { "certificate-authority-data": certificate }
        : { "certificate-authority": authority };
      const config = {
        apiVersion: "v1",
        kind: "Config",
        "current-context": "x",
        clusters: [{ name: "x", cluster: { server: world.cluster.server, ...trust } }],
        users: [{ name: "x", user: { token: await createToken(usage) } }],
        contexts: [{ name: "x", context: { cluster: "x", user: "x" } }],
      };
      writeFileSync(file, JSON.stringify(config), { mode: 0o600 });
      return file;
    }

    test("the executable does all its work with the rights it is given, and no others", async () => {
      const gates =
        "NodeMutatingWebhook=true,NodeValidatingWebhook=true,ConfigMapValidatingWebhook=true,ReservationMutatingWebhook=true,EnableQuotaAdmission=true,MultiQuotaTree=true,ReservationFit=true,ColocationProfileController=true";
      child = spawn(
        process.execPath,
        [
          join(root, "packages/colocation/src/main.ts"),
          `--feature-gates=${gates}`,
          "--metrics-addr=127.0.0.1:0",
          "--health-probe-addr=127.0.0.1:0",
          "--audit-level=all",
          "--enable-leader-election=false",
        ],
        {
          env: {
            ...process.env,
            KUBECONFIG: await writeKubeconfig("cocoon-colocation"),
            POD_NAMESPACE: namespace,
            POD_NAME: "replica-0",
            WEBHOOK_PORT: String(reserved.port),
            WEBHOOK_HOST: "127.0.0.1",
          },
          stdio: ["ignore", "pipe", "pipe"],
        },
      );
      for (const stream of [child.stdout, child.stderr])
        stream?.setEncoding("utf8").on("data", (text: string) => (output += text));
      await eventually(() => assert.match(output, /colocation webhooks are up/, output), {
        timeoutMs: 90_000,
      });
      assert.match(output, /feature gates accepted and not used here/);
      const { client, cluster } = world;
      await client.create(
        profiles,
        { metadata: { name: "all" }, spec: { labels: { hit: "1" } } },
        { signal },
      );
      await using space = await cluster.newNamespace();
      const quota = {
        apiVersion: "scheduling.sigs.k8s.io/v1alpha1",
        kind: "ElasticQuota",
        metadata: { name: space.name, namespace: space.name },
        spec: { min: { cpu: "1" }, max: { cpu: "1" } },
      };
      await eventually(
        async () => assertDone(await cluster.kubectl(["apply", "-f", "-"], { input: JSON.stringify(quota) })),
        { timeoutMs: 60_000 },
      );
      const pod = (name: string) => ({
        metadata: { name, namespace: space.name },
        spec: { containers: [{ name: "c", image: "i", resources: { requests: { cpu: "1" } } }] },
      });
      const made = await eventually(
        async () => {
          const created = await client.create(pods, pod("a"), { signal, dryRun: true });
          assert.equal(created.metadata.labels?.["hit"], "1");
          return client.create(pods, pod("a"), { signal });
        },
        { timeoutMs: 60_000 },
      );
      assert.equal(made.metadata.labels?.["hit"], "1");
      await assert.rejects(client.create(pods, pod("b"), { signal }), /exceeded quota/);
      assert.doesNotMatch(output, /forbidden/i, "a right is missing");
      assert.match(output, /"audit":true/);
    });

    function get(path: string, token?: string): Promise<{ status: number; text: string }> {
      return new Promise((resolve, reject) => {
        const headers = token ? { authorization: `Bearer ${token}` } : {};
        https
          .get(
            {
              host: "127.0.0.1",
              port: reserved.port,
              path,
              headers,
              rejectUnauthorized: false,
              agent: false,
            },
            (response) => {
              let text = "";
              response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
              response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
            },
          )
          .on("error", reject);
      });
    }

    test("the debug pages are for those who may see them", async () => {
      assert.equal((await get("/elasticQuota")).status, 401);
      assert.equal((await get("/debug/config", "not.a.token")).status, 401);
      assertDone(await kubectl("-n", namespace, "create", "serviceaccount", "viewer"));
      const token = await createToken("viewer");
      assert.equal((await get("/debug/profiles", token)).status, 403);
      assertDone(
        await kubectl(
          "create",
          "clusterrolebinding",
          "viewer",
          "--clusterrole=cocoon-colocation-debug",
          `--serviceaccount=${namespace}:viewer`,
        ),
      );
      await eventually(async () => assert.equal((await get("/debug/profiles", token)).status, 200), {
        timeoutMs: 30_000,
      });
      assert.match((await get("/debug/profiles", token)).text, /"name":"all"/);
      const quotas = JSON.parse((await get("/elasticQuota", token)).text) as {
        quotaHierarchyInfo: Record<string, string[]>;
      };
      assert.ok(quotas.quotaHierarchyInfo["koordinator-root-quota"]);
      assert.match((await get("/debug/config", token)).text, /"sloConfigName":"slo-controller-config"/);
    });

    test("the checks find everything in order, and name what is not", async () => {
      const { client } = world;
      const checks = await checkColocation({ client, namespace, signal });
      for (const check of checks) assert.equal(check.state, "ok", JSON.stringify(check));
      assert.match(
        checks.find(({ name }) => name === "colocation certificate")?.found ?? "",
        /\d+ days left/,
      );
      const missing = await checkColocation({
        client,
        namespace: "default",
        signal,
        configurationNames: { mutating: "x", validating: "y" },
      });
      assert.equal(missing[0]?.state, "problem");
      assert.equal(missing[1]?.state, "problem");
    });

    test("configurations and definitions of another program are never taken over", async () => {
      const { client } = world;
      assertDone(
        await world.cluster.kubectl(["create", "-f", "-"], {
          input: JSON.stringify({
            apiVersion: "admissionregistration.k8s.io/v1",
            kind: "MutatingWebhookConfiguration",
            metadata: { name: "koordinator-mutating-webhook-configuration" },
            webhooks: [],
          }),
        }),
      );
      const others = {
        mutating: "koordinator-mutating-webhook-configuration",
        validating: "koordinator-validating-webhook-configuration",
      };
      await assert.rejects(
        startReplica(world, testSettings({ configurationNames: others })),
        /belongs to another program/,
      );
      const name = "reservations.scheduling.koordinator.sh";
      // The documented way to install them: server-side apply refuses fields that another program changed.
      const patch = [{ op: "replace", path: "/spec/names/shortNames", value: ["foreign"] }];
      assertDone(
        await kubectl(
          "patch",
          "crd",
          name,
          "--type=json",
          "--field-manager=other",
          "-p",
          JSON.stringify(patch),
        ),
      );
      const definition = readDefinitions().find(({ metadata }) => metadata.name === name);
      const applied = await world.cluster.kubectl(["apply", "--server-side", "-f", "-"], {
        input: JSON.stringify(definition),
      });
      assert.match(applied.stderr, /conflict with "other"/);
      const unchanged = await client.get(customResourceDefinitions, { name }, { signal });
      assert.deepEqual(unchanged.spec?.names["shortNames"], ["foreign"]);
    });
  });
}
