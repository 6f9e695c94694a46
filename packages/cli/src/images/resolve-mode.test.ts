import assert from "node:assert/strict";
import { test } from "node:test";
import { mediaType } from "@cocoon/contract";
import { isFault } from "@cocoon/core";
import { openRegistry } from "@cocoon/oci";
import { startFakeRegistry } from "@cocoon/oci/testing";
import { listKnownImages } from "./known-images.ts";
import { modeByForm, notFound, resolveMode, splitTag } from "./resolve-mode.ts";

test("a reference that can only be an image is booted without asking", () => {
  const cases: readonly [string, string | undefined][] = [
    ["https://images.example/debian.qcow2", "run"],
    ["file:///srv/images/a.qcow2", "run"],
    ["/srv/images/a.qcow2", "run"],
    ["docker.io/library/debian:12", "run"],
    ["localhost:5000/debian", "run"],
    ["team/base@sha256:00", "run"],
    ["cocoon-demo", undefined],
    ["team/base:v1", undefined],
    ["vk-default-demo-0:latest", undefined],
  ];
  for (const [image, mode] of cases) assert.equal(modeByForm(image), mode, image);
  assert.deepEqual(splitTag("team/base:v1"), { name: "team/base", tag: "v1" });
  assert.deepEqual(splitTag("team/base"), { name: "team/base", tag: "latest" });
});

async function setup() {
  const stack = new AsyncDisposableStack();
  const server = stack.use(await startFakeRegistry());
  const registry = stack.use(openRegistry({ address: server.url, retry: { attempts: 1 } }));
  const put = async (name: string, tag: string, content: object) => {
    const manifest = { schemaVersion: 2, layers: [], ...content };
    const bytes = Buffer.from(JSON.stringify(manifest));
    await registry
      .repository(name)
      .putManifest(
        tag,
        { bytes, mediaType: mediaType.ociManifest },
        { signal: new AbortController().signal },
      );
  };
  return { server, registry, put, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

const empty = { config: { mediaType: mediaType.ociEmpty } };

test("the mode follows from what the registry holds", async ({ signal }) => {
  await using s = await setup();
  const session = { target: {}, signal };
  await s.put("team/base", "v1", { ...empty, artifactType: mediaType.snapshotPacked });
  await s.put("team/image", "latest", { ...empty, artifactType: mediaType.osImage });
  await s.put("team/box", "v2", { config: { mediaType: mediaType.ociImageConfig } });
  const mode = (image: string) => resolveMode(image, session, s.registry);
  assert.equal(await mode("team/base:v1"), "clone");
  assert.equal(await mode("team/image"), "run");
  assert.equal(await mode("team/box:v2"), "run");
  assert.equal(await mode("cocoon-demo"), "run");
  assert.equal(await resolveMode("team/any", session, undefined), "clone");
  const names = (await listKnownImages(session, s.registry)).map(({ name, kind }) => `${name} ${kind}`);
  assert.deepEqual(names.toSorted(), [
    "cocoon-base built-in",
    "cocoon-debian built-in",
    "cocoon-demo built-in",
    "team/base:v1 snapshot",
    "team/box:v2 container-image",
    "team/image:latest cloud-image",
  ]);
});

test("an image that is nowhere is an error that lists what there is", async ({ signal }) => {
  await using s = await setup();
  await s.put("team/base", "v1", { ...empty, artifactType: mediaType.snapshotPacked });
  await assert.rejects(
    resolveMode("cocoon-dmo", { target: {}, signal }, s.registry),
    (error) =>
      isFault(error, "notFound") &&
      /did you mean cocoon-demo\?/.test(error.message) &&
      /there are: cocoon-demo, cocoon-base, cocoon-debian, team\/base:v1\./.test(error.message) &&
      /--mode run or --mode clone/.test(error.message),
  );
  const many = Array.from({ length: 40 }, (_, index) => `image-${index}`);
  assert.match(notFound("x", many).message, /image-11 and 28 more/);
});

test("a registry that does not answer is not an image that does not exist", async ({ signal }) => {
  await using s = await setup();
  s.server.hook = (_request, response) => {
    response.writeHead(503).end();
    return Promise.resolve(true);
  };
  await assert.rejects(
    resolveMode("team/base:v1", { target: {}, signal }, s.registry),
    (error) =>
      isFault(error) &&
      error.code !== "notFound" &&
      /could not be looked up.*--mode clone/.test(error.message),
  );
});
