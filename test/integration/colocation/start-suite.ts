/** What a replica finds when it starts: kinds that are not served yet, certificates that another tool made. */
import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import https from "node:https";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import type { TLSSocket } from "node:tls";
import { isFault } from "@cocoon/core";
import { customResourceDefinitions, pods, secrets, type KubeConnection } from "@cocoon/kube";
import { selfSignedCertificates } from "@cocoon/kube/certificates";
import { profiles } from "@cocoon/colocation";
import { readDefinitions } from "@cocoon/colocation/testing/manifests";
import { eventually, temporaryDirectory } from "@cocoon/testkit";
import {
  sharedCluster,
  signal,
  startReplica,
  testSettings,
  unregister,
  type ColocationCluster,
} from "./cluster.ts";

const patient = { timeoutMs: 60_000, intervalMs: 100 };

export function starting(): void {
  describe("a replica that starts", () => {
    const names = { mutating: "test-start-mutating", validating: "test-start-validating" };
    let world: ColocationCluster;

    before(async () => {
      world = await sharedCluster();
    });

    const pod = { metadata: { name: "p" }, spec: { containers: [{ name: "c", image: "i" }] } };

    async function labelled(namespace: string): Promise<string | undefined> {
      const object = { ...pod, metadata: { ...pod.metadata, namespace } };
      const made = await world.client.create(pods, object, { signal, dryRun: true });
      return made.metadata.labels?.["hit"];
    }

    const everybody = { metadata: { name: "start-everybody" }, spec: { labels: { hit: "1" } } };

    test("before its kinds are served is ready, reports it, and picks them up when they come", async () => {
      const { client } = world;
      const definition = readDefinitions().find(
        ({ metadata }) => metadata.name === "clustercolocationprofiles.config.koordinator.sh",
      );
      assert.ok(definition);
      const { name } = definition.metadata;
      await client.delete(customResourceDefinitions, { name }, { signal });
      await eventually(() => assertGone(client, name), patient);

      const replica = await startReplica(world, testSettings({ configurationNames: names }));
      await using namespace = await world.cluster.newNamespace();
      try {
        const { port } = replica.server;
        assert.equal(
          await readyz(port),
          "ready; not served yet, taken as empty: clustercolocationprofiles.config.koordinator.sh",
        );
        assert.equal(await labelled(namespace.name), undefined, "no profile, no change");
        await client.create(customResourceDefinitions, definition, { signal });
        await eventually(async () => assert.equal(await readyz(port), "ready"), patient);
        await client.create(profiles, everybody, { signal });
        await eventually(async () => assert.equal(await labelled(namespace.name), "1"), patient);
      } finally {
        await unregister(client, names);
        await replica[Symbol.asyncDispose]();
        await client.delete(profiles, { name: everybody.metadata.name }, { signal }).catch(ignoreMissing);
      }
    });

    test("with files serves them, is trusted by them, and follows them", async () => {
      const { client } = world;
      await using directory = await temporaryDirectory();
      const write = (file: string, text: string) => writeFile(join(directory.path, file), text);
      const first = (await selfSignedCertificates({ host: "127.0.0.1", ip: "127.0.0.1" })).current();
      await write("tls.crt", first.certificate);
      await write("tls.key", first.privateKey);
      await write("ca.crt", first.certificate);
      await client.create(profiles, everybody, { signal });
      await using namespace = await world.cluster.newNamespace();
      const certificates = { secretName: "", directory: directory.path, replica: "files" };
      const replica = await startReplica(world, testSettings({ configurationNames: names, certificates }));
      try {
        await eventually(async () => assert.equal(await labelled(namespace.name), "1"), patient);
        assert.equal(await servedBy(replica.server.port), computeFingerprint(first.certificate));

        const next = (await selfSignedCertificates({ host: "127.0.0.1", ip: "127.0.0.1" })).current();
        await write("ca.crt", `${next.certificate}\n${first.certificate}`);
        await write("tls.key", next.privateKey);
        await write("tls.crt", next.certificate);
        await eventually(
          async () => assert.equal(await servedBy(replica.server.port), computeFingerprint(next.certificate)),
          patient,
        );
        await eventually(async () => assert.equal(await labelled(namespace.name), "1"), patient);
      } finally {
        await unregister(client, names);
        await replica[Symbol.asyncDispose]();
        await client.delete(profiles, { name: everybody.metadata.name }, { signal });
      }
    });

    test("uses the Secret webhook-tls where only that exists", async () => {
      const { client, cluster } = world;
      await using namespace = await cluster.newNamespace();
      const settings = (secretName: string, replica: string) =>
        testSettings({
          configurationNames: names,
          namespace: namespace.name,
          certificates: { secretName, directory: undefined, replica },
        });
      const made = await startReplica(world, settings("webhook-tls", "maker"));
      await made[Symbol.asyncDispose]();
      const replica = await startReplica(world, settings("", "finder"));
      try {
        const key = { namespace: namespace.name, name: "webhook-tls" };
        const { data = {} } = await client.get(secrets, key, { signal });
        const stored = Buffer.from(data["tls.crt"] ?? "", "base64").toString("utf8");
        assert.equal(await servedBy(replica.server.port), computeFingerprint(stored));
        const { items } = await client.list(secrets, { namespace: namespace.name, signal });
        assert.deepEqual(
          items.map(({ metadata }) => metadata.name),
          ["webhook-tls"],
        );
      } finally {
        await unregister(client, names);
        await replica[Symbol.asyncDispose]();
      }
    });
  });
}

function ignoreMissing(error: unknown): void {
  if (!isFault(error, "notFound")) throw error;
}

async function assertGone(client: KubeConnection, name: string): Promise<void> {
  const path = "/apis/config.koordinator.sh/v1alpha1/clustercolocationprofiles?limit=1";
  await assert.rejects(client.get(customResourceDefinitions, { name }, { signal }));
  await assert.rejects(client.raw({ method: "GET", path, signal }), (error) => isFault(error, "notFound"));
}

const computeFingerprint = (certificate: string) => new X509Certificate(certificate).fingerprint256;

function servedBy(port: number): Promise<string> {
  return get(port, "/healthz").then(({ fingerprint }) => fingerprint);
}

function readyz(port: number): Promise<string> {
  return get(port, "/readyz").then(({ text }) => text.trim());
}

function get(port: number, path: string): Promise<{ text: string; fingerprint: string }> {
  return new Promise((resolve, reject) => {
    const options = { host: "127.0.0.1", port, path, rejectUnauthorized: false, agent: false };
    const call = https.get(options, (response) => {
      const socket = response.socket as TLSSocket;
      const fingerprint = socket.getPeerX509Certificate()?.fingerprint256 ?? "";
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.on("end", () => resolve({ text, fingerprint }));
    });
    call.on("error", reject);
  });
}
