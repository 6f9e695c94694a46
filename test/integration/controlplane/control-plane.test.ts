import assert from "node:assert/strict";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { markedProcesses, startComponents, stopComponents } from "@cocoon/controlplane";
import { eventually, ownControlPlane, sharedControlPlane } from "@cocoon/testkit";

test("a real control plane: RBAC, service account tokens, controllers and scheduler work", async () => {
  const cluster = await sharedControlPlane();
  await using namespace = await cluster.newNamespace();
  const version = await cluster.kubectl(["version", "-o", "json"]);
  assert.match(version.stdout, /"gitVersion": "v1\.36\.3"/);

  const token = (await cluster.kubectl(["create", "token", "default", "-n", namespace.name])).stdout.trim();
  const asPod = (args: string[]) =>
    cluster.kubectl([
      "--kubeconfig=/dev/null",
      `--server=${cluster.server}`,
      `--certificate-authority=${cluster.layout.pki}/ca.crt`,
      `--token=${token}`,
      ...args,
    ]);
  const who = await asPod(["auth", "whoami"]);
  assert.match(who.stdout, new RegExp(`system:serviceaccount:${namespace.name}:default`));
  const refused = await asPod(["get", "secrets", "-n", namespace.name]);
  assert.match(refused.stderr, /Forbidden/);

  await cluster.kubectl([
    "create",
    "deployment",
    "web",
    "--image=demo",
    "--replicas=2",
    "-n",
    namespace.name,
  ]);
  await eventually(
    async () => {
      const pods = await cluster.kubectl([
        "get",
        "pods",
        "-n",
        namespace.name,
        "-o",
        "jsonpath={.items[*].status.conditions[0].reason}",
      ]);
      assert.equal(
        pods.stdout,
        "Unschedulable Unschedulable",
        "the scheduler looked at both pods and found no node",
      );
    },
    { timeoutMs: 60_000 },
  );
});

test("a request without credentials is refused", async () => {
  const cluster = await sharedControlPlane();
  const anonymous = await cluster.kubectl([
    "--kubeconfig=/dev/null",
    `--server=${cluster.server}`,
    `--certificate-authority=${cluster.layout.pki}/ca.crt`,
    "--username=x",
    "--password=y",
    "get",
    "nodes",
  ]);
  assert.match(anonymous.stderr, /Unauthorized|must be logged in/i);
});

test("private keys and the kubeconfig are readable by their owner only", async () => {
  const cluster = await sharedControlPlane();
  const keys = (await readdir(cluster.layout.pki))
    .filter((name) => name.endsWith(".key"))
    .map((name) => join(cluster.layout.pki, name));
  for (const path of [...keys, cluster.kubeconfigPath])
    assert.equal((await stat(path)).mode & 0o077, 0, path);
});

test("starting twice changes nothing, a crashed component is told and started again, stopping leaves no process", async () => {
  await using cluster = await ownControlPlane({ controllers: false, auditLog: true });
  const directory = cluster.layout.directory;
  const before = markedProcesses(directory);
  assert.deepEqual(before.map((process) => process.name).toSorted(), ["etcd", "kube-apiserver"]);
  await cluster.start();
  assert.deepEqual(markedProcesses(directory), before);

  await cluster.kubectl(["create", "configmap", "kept", "-n", "default"]);
  await cluster.stop("kube-apiserver", { hard: true });
  await cluster.stop("etcd", { hard: true });
  await cluster.start();
  assert.match((await cluster.kubectl(["get", "configmap", "kept"])).stdout, /kept/);
  assert.match(
    await readFile(join(cluster.layout.audit, "audit.log"), "utf8"),
    /"configmaps","namespace":"default","name":"kept"/,
  );

  await stopComponents([], { directory });
  assert.deepEqual(markedProcesses(directory), []);
});

test("a component that ends before it is ready is reported with its last log lines", async () => {
  await using cluster = await ownControlPlane({ controllers: false });
  const broken = {
    name: "broken",
    summary: "fails",
    needs: [],
    command: "sh",
    args: ["-c", "echo one; echo cannot open the thing >&2; exit 3"],
    probe: () => Promise.reject(new Error("no")),
  };
  await assert.rejects(
    startComponents([broken], { directory: cluster.layout.directory, signal: AbortSignal.timeout(20_000) }),
    /broken ended with code 3; its last log lines[\s\S]*cannot open the thing/,
  );
});
