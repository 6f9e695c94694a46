/** Where vk-cocoon gets images from that are no URLs: the registry of its settings, or the one that a name says. */
import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { isFault, readConfig, silentLogger } from "@cocoon/core";
import { computeDigest, fixedCredential, openRegistry, type Registry } from "@cocoon/oci";
import { startFakeRegistry } from "@cocoon/oci/testing";
import { temporaryDirectory } from "@cocoon/testkit";
import { openImageLibrary, RegistrySource } from "@cocoon/images";
import { vkProgram } from "../../../packages/vk/src/config.ts";
import { readCredentials, openSnapshotRegistry } from "../../../packages/vk/src/registry.ts";
import { writeTestTar } from "@cocoon/oci/testing";

const signal = AbortSignal.timeout(120_000);
const options = { signal };
const mediaType = "application/vnd.oci.image.manifest.v1+json";

async function push(registry: Registry, name: string, tag: string): Promise<string> {
  const repository = registry.repository(name);
  const put = async (type: string, content: Buffer) => {
    const digest = computeDigest(content);
    const open = async function* open(): AsyncGenerator<Uint8Array> {
      yield content;
    };
    await repository.putBlob({ digest, size: content.length, open }, options);
    return { mediaType: type, digest, size: content.length };
  };
  const settings = { architecture: "amd64", os: "linux", config: { Cmd: ["/app"] } };
  const config = await put("application/vnd.oci.image.config.v1+json", Buffer.from(JSON.stringify(settings)));
  const layer = writeTestTar([{ path: "app", content: name, mode: 0o755 }]);
  const layers = [await put("application/vnd.oci.image.layer.v1.tar", layer)];
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType, config, layers }));
  return repository.putManifest(tag, { bytes, mediaType }, options);
}

const login = { username: "me", password: "word" };

test("a name is an image of OCI_REGISTRY, and one that says its registry is fetched there with docker's credentials", async () => {
  await using own = await startFakeRegistry({ auth: { kind: "basic", ...login } });
  await using other = await startFakeRegistry({ auth: { kind: "basic", ...login } });
  await using directory = await temporaryDirectory();
  const credentials = fixedCredential({ kind: "basic", ...login });
  await using ownWriter = openRegistry({ address: `${own.url}/team`, credentials });
  await using otherWriter = openRegistry({ address: other.url, credentials });
  const [near, far] = [await push(ownWriter, "app", "v1"), await push(otherWriter, "tools/app", "v2")];

  const otherHost = new URL(other.url).host;
  const dockerConfig = join(directory.path, "config.json");
  const write = (hosts: readonly string[]) => {
    const auth = Buffer.from(`${login.username}:${login.password}`).toString("base64");
    const auths = Object.fromEntries(hosts.map((host) => [host, { auth }]));
    return writeFile(dockerConfig, JSON.stringify({ auths }), { mode: 0o600 });
  };
  const env = { OCI_REGISTRY: `${own.url}/team`, VK_DOCKER_CONFIG: dockerConfig, GCE_METADATA_HOST: "" };
  const read = readConfig(vkProgram, { argv: [], env });
  assert.ok(read.kind === "config");

  await write([new URL(own.url).host]);
  const registry = await openSnapshotRegistry(read.config, silentLogger);
  await using _client = registry.client;
  await using source = new RegistrySource({
    registry: registry.client,
    credentials: readCredentials(read.config),
  });
  const library = openImageLibrary({ directory: join(directory.path, "images"), source });
  assert.equal((await library.pull("app:v1", options)).id, near);
  await assert.rejects(library.pull(`${otherHost}/tools/app:v2`, options), (error) =>
    isFault(error, "unauthorized"),
  );
  await write([new URL(own.url).host, otherHost]);
  assert.equal((await library.pull(`${otherHost}/tools/app:v2`, options)).id, far);
});
