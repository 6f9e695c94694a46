/** A real client, skopeo from the distribution's packages, against a real registry over HTTP. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { startRegistry, type RunningRegistry } from "@cocoon/registry";
import { temporaryDirectory } from "@cocoon/testkit";
import { OciLayout, sha256 } from "./oci-layout.ts";

const run = promisify(execFile);

interface Skopeo {
  (...args: string[]): Promise<string>;
}

/** skopeo with the credentials of a user in a docker configuration of its own. */
async function skopeoFor(registry: RunningRegistry, directory: string): Promise<Skopeo> {
  const token = await registry.createToken({
    name: "skopeo",
    scopes: ["repository:demo/*:pull,push,delete"],
  });
  const authFile = join(directory, "auth.json");
  const auth = Buffer.from(`someone:${token}`).toString("base64");
  await writeFile(authFile, JSON.stringify({ auths: { [`127.0.0.1:${registry.port}`]: { auth } } }));
  const policy = join(directory, "policy.json");
  await writeFile(policy, JSON.stringify({ default: [{ type: "insecureAcceptAnything" }] }));
  return async (...args) => {
    const { stdout } = await run("skopeo", ["--policy", policy, "--insecure-policy", ...args], {
      env: { ...process.env, REGISTRY_AUTH_FILE: authFile, TMPDIR: directory },
    });
    return stdout;
  };
}

async function fixture() {
  const stack = new AsyncDisposableStack();
  const directory = stack.use(await temporaryDirectory());
  const registry = stack.use(
    await startRegistry({ storage: { kind: "filesystem", root: join(directory.path, "data") } }),
  );
  const skopeo = await skopeoFor(registry, directory.path);
  const layout = await OciLayout.create(join(directory.path, "in"));
  const docker = (reference: string) => `docker://127.0.0.1:${registry.port}/${reference}`;
  return { directory, registry, skopeo, layout, docker, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

test("skopeo copies an image in and out with the same digest", async () => {
  await using world = await fixture();
  const { skopeo, layout, docker, directory } = world;
  const image = await layout.addImage("amd64", 3_000_000);
  await layout.name("v1", image);
  await skopeo("copy", "--dest-tls-verify=false", `oci:${layout.directory}:v1`, docker("demo/image:v1"));
  const raw = await skopeo("inspect", "--raw", "--tls-verify=false", docker("demo/image:v1"));
  assert.equal(sha256(Buffer.from(raw)), image.digest);
  const out = join(directory.path, "out");
  await skopeo("copy", "--src-tls-verify=false", docker("demo/image:v1"), `oci:${out}:v1`);
  const back = await skopeo("inspect", "--raw", `oci:${out}:v1`);
  assert.equal(sha256(Buffer.from(back)), image.digest);
});

test("skopeo copies a multi-arch index whole, and one platform out of it", async () => {
  await using world = await fixture();
  const { skopeo, layout, docker, directory } = world;
  const images = [await layout.addImage("amd64", 50_000), await layout.addImage("arm64", 70_000)];
  const index = await layout.addIndex(images);
  await layout.name("multi", index);
  await skopeo(
    "copy",
    "--all",
    "--dest-tls-verify=false",
    `oci:${layout.directory}:multi`,
    docker("demo/multi:v2"),
  );
  const raw = await skopeo("inspect", "--raw", "--tls-verify=false", docker("demo/multi:v2"));
  assert.equal(sha256(Buffer.from(raw)), index.digest);
  const out = join(directory.path, "arm");
  await skopeo(
    "--override-arch",
    "arm64",
    "copy",
    "--src-tls-verify=false",
    docker("demo/multi:v2"),
    `oci:${out}:arm`,
  );
  assert.equal(sha256(Buffer.from(await skopeo("inspect", "--raw", `oci:${out}:arm`))), images[1]?.digest);
});

test("skopeo lists tags, copies between repositories and deletes", async () => {
  await using world = await fixture();
  const { skopeo, layout, docker } = world;
  const image = await layout.addImage("amd64", 20_000);
  await layout.name("v1", image);
  const remote = ["--src-tls-verify=false", "--dest-tls-verify=false"];
  await skopeo("copy", "--dest-tls-verify=false", `oci:${layout.directory}:v1`, docker("demo/one:v1"));
  await skopeo("copy", ...remote, docker("demo/one:v1"), docker("demo/two:copied"));
  await skopeo("copy", ...remote, docker("demo/one:v1"), docker("demo/one:v2"));
  const list = async (name: string) =>
    (JSON.parse(await skopeo("list-tags", "--tls-verify=false", docker(name))) as { Tags: string[] }).Tags;
  assert.deepEqual(await list("demo/one"), ["v1", "v2"]);
  assert.deepEqual(await list("demo/two"), ["copied"]);
  await skopeo("delete", "--tls-verify=false", docker("demo/one:v1"));
  assert.deepEqual(await list("demo/two"), ["copied"]);
  await assert.rejects(skopeo("inspect", "--raw", "--tls-verify=false", docker("demo/one:v1")), /unknown/);
  await assert.rejects(skopeo("inspect", "--raw", "--tls-verify=false", docker("demo/one:v2")), /unknown/);
});

test("skopeo without credentials, or beyond its scope, is refused", async () => {
  await using world = await fixture();
  const { skopeo, layout, docker } = world;
  await layout.name("v1", await layout.addImage("amd64", 1_000));
  const source = `oci:${layout.directory}:v1`;
  await assert.rejects(
    skopeo("copy", "--dest-no-creds", "--dest-tls-verify=false", source, docker("demo/image:v1")),
    /unauthorized|authentication/i,
  );
  await assert.rejects(
    skopeo("copy", "--dest-tls-verify=false", source, docker("elsewhere/image:v1")),
    /denied|unauthorized|forbidden/i,
  );
  await skopeo("copy", "--dest-tls-verify=false", source, docker("demo/image:v1"));
});
