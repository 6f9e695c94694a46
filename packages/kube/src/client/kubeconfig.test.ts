import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import type { KubeEnvironment } from "./config.ts";
import { loadKubeTarget } from "./kubeconfig.ts";

const nowhere: KubeEnvironment = {
  homeKubeconfig: "/nonexistent/config",
  serviceAccountDirectory: "/nonexistent/serviceaccount",
};

function config(name: string, more: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({
    "current-context": name,
    clusters: [{ name, cluster: { server: `https://${name}.example:6443` } }],
    users: [{ name, user: { token: `token-of-${name}` } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace: `ns-${name}` } }],
    ...more,
  });
}

async function withFiles(
  files: Readonly<Record<string, string>>,
  use: (path: (name: string) => string) => Promise<void>,
) {
  await using directory = await temporaryDirectory();
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory.path, name), text);
  await use((name) => join(directory.path, name));
}

async function refused(
  options: Parameters<typeof loadKubeTarget>[0],
  ...parts: readonly RegExp[]
): Promise<void> {
  await assert.rejects(loadKubeTarget({ environment: nowhere, ...options }), (error) => {
    assert.ok(isFault(error, "invalid"), String(error));
    assert.ok(!error.message.includes("\n"), `one line: ${error.message}`);
    for (const part of parts) assert.match(error.message, part);
    return true;
  });
}

test("the flag wins over KUBECONFIG, KUBECONFIG over the home directory, that over the pod", async () => {
  await withFiles(
    { a: config("a"), b: config("b"), c: config("c"), token: "pod-token", namespace: "pod-ns\n" },
    async (path) => {
      const pod = { serviceHost: "10.0.0.1", servicePort: "443", serviceAccountDirectory: path("") };
      const environment = { kubeconfig: path("b"), homeKubeconfig: path("c"), ...pod };
      const load = async (given: KubeEnvironment, kubeconfig?: string) =>
        (await loadKubeTarget({ environment: given, kubeconfig })).context;
      assert.equal(await load(environment, path("a")), "a");
      assert.equal(await load(environment), "b");
      assert.equal(await load({ ...environment, kubeconfig: undefined }), "c");
      const inPod = await loadKubeTarget({ environment: { homeKubeconfig: "/nonexistent", ...pod } });
      assert.equal(inPod.cluster.server, "https://10.0.0.1:443");
      assert.equal(inPod.namespace, "pod-ns");
      assert.equal(inPod.tokenFile, path("token"));
      const six = await loadKubeTarget({
        environment: { homeKubeconfig: "/nonexistent", ...pod, serviceHost: "fd00::1" },
      });
      assert.equal(six.cluster.server, "https://[fd00::1]:443");
    },
  );
});

test("a list of files is merged, the first one wins, missing ones are skipped", async () => {
  const shadow = config("b", {
    users: [
      { name: "a", user: { token: "shadowed" } },
      { name: "b", user: {} },
    ],
  });
  await withFiles({ a: config("a"), b: shadow }, async (path) => {
    const kubeconfig = [path("missing"), path("a"), "", path("b")].join(":");
    const first = await loadKubeTarget({ kubeconfig });
    assert.equal(first.context, "a");
    assert.equal(first.user.token, "token-of-a");
    assert.equal(first.source, `context "a" of ${path("a")}`);
    const second = await loadKubeTarget({ kubeconfig, context: "b" });
    assert.equal(second.cluster.server, "https://b.example:6443");
    assert.equal(second.namespace, "ns-b");
  });
});

test("paths in a kubeconfig are relative to its own directory", async () => {
  await using directory = await temporaryDirectory();
  await mkdir(join(directory.path, "deep"));
  const path = join(directory.path, "deep", "config");
  const text = config("a", {
    clusters: [{ name: "a", cluster: { server: "https://a:1", "certificate-authority": "ca.crt" } }],
    users: [
      {
        name: "a",
        user: {
          "client-certificate": "me.crt",
          "client-key": "/absolute/me.key",
          tokenFile: "token",
          exec: { command: "./bin/login" },
        },
      },
    ],
  });
  await writeFile(path, text);
  const target = await loadKubeTarget({ kubeconfig: path });
  const deep = (name: string) => join(directory.path, "deep", name);
  assert.equal(target.cluster.caFile, deep("ca.crt"));
  assert.equal(target.user.certFile, deep("me.crt"));
  assert.equal(target.user.keyFile, "/absolute/me.key");
  assert.equal(target.tokenFile, deep("token"));
  assert.equal((target.user.exec as { command: string }).command, deep("bin/login"));
});

test("impersonation goes into headers", async () => {
  const user = {
    as: "ann",
    "as-uid": "7",
    "as-groups": ["g1", "g2"],
    "as-user-extra": { "Scopes/x": ["a"] },
  };
  await withFiles({ a: config("a", { users: [{ name: "a", user }] }) }, async (path) => {
    assert.deepEqual((await loadKubeTarget({ kubeconfig: path("a") })).impersonation, {
      "impersonate-user": "ann",
      "impersonate-uid": "7",
      "impersonate-group": ["g1", "g2"],
      "impersonate-extra-scopes%2Fx": ["a"],
    });
  });
});

test("YAML is read as well as JSON", async () => {
  const yaml = `
apiVersion: v1
kind: Config
current-context: y
clusters:
- name: y
  cluster: {server: "https://y.example"}
users: null
contexts:
- {name: y, context: {cluster: y}}
`;
  await withFiles({ y: yaml }, async (path) => {
    const target = await loadKubeTarget({ kubeconfig: path("y") });
    assert.equal(target.cluster.server, "https://y.example");
    assert.equal(target.user.name, "");
  });
});

test("what is wrong is reported in one line that names the file, the field and what to do", async () => {
  await refused({}, /no cluster is configured/, /--kubeconfig or KUBECONFIG/, /\/nonexistent\/config/);
  await refused(
    { kubeconfig: "/nonexistent/a:/nonexistent/b" },
    /\/nonexistent\/a, \/nonexistent\/b does not exist/,
  );
  const two = config("a", {
    "current-context": "",
    contexts: ["a", "b"].map((name) => ({ name, context: { cluster: name, user: name } })),
  });
  const files = {
    two,
    tabs: "clusters:\n\t- name: a",
    text: "hello",
    list: "[1, 2]",
    empty: "",
    noServer: config("a", { clusters: [{ name: "a", cluster: {} }] }),
    noList: config("a", { clusters: { name: "a" } }),
    badServer: config("a", { clusters: [{ name: "a", cluster: { server: "a.example:6443" } }] }),
    noUser: config("a", { users: [] }),
    badToken: config("a", { users: [{ name: "a", user: { token: 12345 } }] }),
    badExec: config("a", { users: [{ name: "a", user: { exec: {} } }] }),
    huge: " ".repeat(5 * 1024 * 1024),
  };
  await withFiles(files, async (path) => {
    await refused({ kubeconfig: path("two") }, /has no current-context; choose one with --context: a, b/);
    await refused({ kubeconfig: path("two"), context: "c" }, /has no context "c"; it has: a, b/);
    await refused(
      { kubeconfig: path("two"), context: "b" },
      /contexts\[b\]\.context\.cluster is "b".*known: a/,
    );
    await refused({ kubeconfig: path("tabs") }, /tabs is not YAML: .*line 2/);
    await refused({ kubeconfig: path("text") }, /text: the file: must hold a mapping/);
    await refused({ kubeconfig: path("list") }, /list: the file: must hold a mapping/);
    await refused({ kubeconfig: path("empty") }, /empty: the file: must hold a mapping/);
    await refused({ kubeconfig: path("noServer") }, /noServer: clusters\[0\]\.cluster\.server: is missing/);
    await refused({ kubeconfig: path("noList") }, /clusters: must be a list/);
    await refused({ kubeconfig: path("badServer") }, /clusters\[a\]\.cluster\.server is "a\.example:6443"/);
    await refused({ kubeconfig: path("noUser") }, /contexts\[a\]\.context\.user is "a".*known: none/);
    await refused({ kubeconfig: path("badToken") }, /users\[0\]\.user\.token: must be a text/);
    await refused({ kubeconfig: path("badExec") }, /users\[0\]\.user\.exec\.command/);
    await refused({ kubeconfig: path("huge") }, /cannot be read: it has \d+ bytes/);
    await refused({ kubeconfig: path("") }, /cannot be read/);
  });
});
