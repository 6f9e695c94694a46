/** OCI Distribution 1.1, content discovery and management: tags, catalogue, referrers, deletion. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { count } from "@cocoon/testkit";
import {
  computeDigest,
  startWorld,
  type as mediaTypes,
  type Answer,
  type Client,
  type World,
} from "./world.ts";

/** The path of the next page, if the answer names one. */
function nextPage(answer: Answer): string | undefined {
  return /^<([^>]+)>; rel="next"$/.exec(answer.headers.get("link") ?? "")?.[1];
}

async function allPages<T>(client: Client, path: string, read: (answer: Answer) => T[]): Promise<T[][]> {
  const pages: T[][] = [];
  for (let next: string | undefined = path; next !== undefined;) {
    const answer: Answer = await client.get(next);
    assert.equal(answer.status, 200);
    pages.push(read(answer));
    next = nextPage(answer);
  }
  return pages;
}

describe("tags and catalogue", () => {
  const name = "discovery/tags";
  // Byte order, in which one tag may be the beginning of another.
  const tags = ["A", "Z", "_x", "a", "a-b", "a.b", "a_b", "ab", "latest", "v1", "v10", "v2"];
  let world: World;
  let client: Client;
  before(async () => {
    world = await startWorld();
    client = world.client;
    const image = await client.pushImage(name, "v1");
    for (const tag of [...tags].reverse()) await client.pushManifest(name, tag, image.bytes);
  });
  after(() => world[Symbol.asyncDispose]());
  const list = async (query = "") =>
    ((await client.get(`/v2/${name}/tags/list${query}`)).json() as { tags: string[] }).tags;

  it("lists all tags in byte order (end-8)", async () => {
    const answer = await client.get(`/v2/${name}/tags/list`);
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.json(), { name, tags });
    assert.equal(nextPage(answer), undefined);
    assert.equal((await client.head(`/v2/${name}/tags/list`)).status, 200);
  });

  it("limits by n, goes on after last, and links the next page", async () => {
    const first = await client.get(`/v2/${name}/tags/list?n=5`);
    assert.deepEqual((first.json() as { tags: string[] }).tags, tags.slice(0, 5));
    assert.ok(nextPage(first));
    const pages = await allPages(
      client,
      `/v2/${name}/tags/list?n=5`,
      (answer) => (answer.json() as { tags: string[] }).tags,
    );
    assert.deepEqual(pages, [tags.slice(0, 5), tags.slice(5, 10), tags.slice(10)]);
    assert.deepEqual(await list("?n=4&last=v1"), ["v10", "v2"]);
    assert.deepEqual(await list("?last=latest"), ["v1", "v10", "v2"]);
    assert.deepEqual(await list("?last=b-is-not-there"), ["latest", "v1", "v10", "v2"]);
    assert.deepEqual(await list("?last=zzz"), []);
    assert.equal(nextPage(await client.get(`/v2/${name}/tags/list?n=12`)), undefined, "nothing is left");
  });

  it("gives an empty page and no link for n=0", async () => {
    const answer = await client.get(`/v2/${name}/tags/list?n=0`);
    assert.deepEqual((answer.json() as { tags: string[] }).tags, []);
    assert.equal(answer.headers.get("link"), null);
  });

  it("refuses a page size that is no number", async () => {
    for (const n of ["-1", "x", "1e3", "99999999999"])
      assert.equal((await client.get(`/v2/${name}/tags/list?n=${n}`)).status, 400, n);
  });

  it("lists repositories that have a tag, in byte order, page by page", async () => {
    const names = ["discovery/a", "discovery/a-b", "discovery/a/b", "discovery/ab"];
    for (const each of names) await client.pushImage(each, "x");
    await client.pushBlob("discovery/only-blobs", Buffer.from("x"));
    const all = [...names, name];
    const read = (answer: Answer) => (answer.json() as { repositories: string[] }).repositories;
    assert.deepEqual(read(await client.get("/v2/_catalog")), all);
    assert.deepEqual(await allPages(client, "/v2/_catalog?n=2", read), [
      all.slice(0, 2),
      all.slice(2, 4),
      all.slice(4),
    ]);
    assert.equal((await client.delete("/v2/discovery/ab/manifests/x")).status, 202);
    assert.deepEqual(
      read(await client.get("/v2/_catalog")),
      all.filter((each) => each !== "discovery/ab"),
    );
  });

  it(`pages through ${count({ small: 500, full: 10_000 })} tags`, async () => {
    const total = count({ small: 500, full: 10_000 });
    const image = await client.pushImage("discovery/many", "t-00000");
    const wanted = Array.from({ length: total }, (_each, index) => `t-${String(index).padStart(5, "0")}`);
    for (let start = 1; start < total; start += 20)
      await Promise.all(
        wanted.slice(start, start + 20).map((tag) => client.pushManifest("discovery/many", tag, image.bytes)),
      );
    const pages = await allPages(
      client,
      "/v2/discovery/many/tags/list?n=97",
      (answer) => (answer.json() as { tags: string[] }).tags,
    );
    assert.deepEqual(pages.flat(), wanted);
    assert.ok(pages.every((page) => page.length <= 97));
    assert.equal((await client.delete(`/v2/discovery/many/manifests/${image.digest}`)).status, 202);
    const gone = await client.get("/v2/discovery/many/tags/list");
    assert.deepEqual(
      (gone.json() as { tags: string[] }).tags,
      [],
      "the digest is gone, and every tag with it",
    );
  });
});

describe("referrers", () => {
  const name = "discovery/referrers";
  let world: World;
  let client: Client;
  before(async () => {
    world = await startWorld();
    client = world.client;
  });
  after(() => world[Symbol.asyncDispose]());

  interface Index {
    schemaVersion: number;
    mediaType: string;
    manifests: {
      mediaType: string;
      digest: string;
      size: number;
      artifactType?: string;
      annotations?: unknown;
    }[];
  }

  it("lists everything that names a subject, pushed before or after it (end-12)", async () => {
    const subjectManifest = await client.newImage(name);
    const subjectBytes = Buffer.from(JSON.stringify(subjectManifest));
    const subject = {
      mediaType: mediaTypes.manifest,
      digest: computeDigest(subjectBytes),
      size: subjectBytes.length,
    };
    const base = await client.newImage(name);
    const empty = await client.pushBlob(name, Buffer.from("{}"));
    const emptyConfig = { mediaType: "application/vnd.oci.empty.v1+json", digest: empty, size: 2 };
    const referring: [object, string | undefined][] = [
      [{ ...base, subject, annotations: { which: "config type" } }, mediaTypes.config],
      [
        { ...base, subject, artifactType: "application/vnd.a", annotations: { which: "a" } },
        "application/vnd.a",
      ],
      [
        {
          ...base,
          config: emptyConfig,
          subject,
          artifactType: "application/vnd.b",
          layers: [],
          annotations: { which: "b" },
        },
        "application/vnd.b",
      ],
      [
        {
          schemaVersion: 2,
          mediaType: mediaTypes.index,
          manifests: [],
          subject,
          annotations: { which: "index" },
        },
        undefined,
      ],
      [
        {
          schemaVersion: 2,
          mediaType: mediaTypes.index,
          artifactType: "application/vnd.a",
          manifests: [],
          subject,
          annotations: { which: "typed index" },
        },
        "application/vnd.a",
      ],
    ];
    const expected: unknown[] = [];
    for (const [index, [manifest, artifactType]] of referring.entries()) {
      if (index === 3) assert.equal((await client.pushManifest(name, "subject", subjectBytes)).status, 201);
      const bytes = Buffer.from(JSON.stringify(manifest));
      const answer = await client.pushManifest(name, computeDigest(bytes), bytes);
      assert.equal(answer.status, 201);
      assert.equal(answer.headers.get("oci-subject"), subject.digest);
      expected.push({
        mediaType: (manifest as { mediaType: string }).mediaType,
        digest: computeDigest(bytes),
        size: bytes.length,
        ...(artifactType ? { artifactType } : {}),
        annotations: (manifest as { annotations: unknown }).annotations,
      });
    }
    const answer = await client.get(`/v2/${name}/referrers/${subject.digest}`);
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get("content-type"), mediaTypes.index);
    assert.equal(answer.headers.get("oci-filters-applied"), null);
    const index = answer.json() as Index;
    assert.equal(index.schemaVersion, 2);
    assert.equal(index.mediaType, mediaTypes.index);
    const byDigest = (list: unknown[]) =>
      (list as { digest: string }[]).sort((a, b) => (a.digest < b.digest ? -1 : 1));
    assert.deepEqual(byDigest(index.manifests), byDigest(expected));

    const filtered = await client.get(
      `/v2/${name}/referrers/${subject.digest}?artifactType=application/vnd.a`,
    );
    assert.equal(filtered.headers.get("oci-filters-applied"), "artifactType");
    assert.deepEqual(
      (filtered.json() as Index).manifests.map((each) => each.artifactType),
      ["application/vnd.a", "application/vnd.a"],
    );
    const victim = index.manifests[0]?.digest;
    assert.equal((await client.delete(`/v2/${name}/manifests/${victim}`)).status, 202);
    const left = ((await client.get(`/v2/${name}/referrers/${subject.digest}`)).json() as Index).manifests;
    assert.deepEqual(byDigest(left), byDigest(index.manifests.filter((each) => each.digest !== victim)));
  });

  it("answers an unknown subject with an empty list, a malformed one with 400", async () => {
    const answer = await client.get(`/v2/${name}/referrers/${computeDigest(randomBytes(5))}`);
    assert.equal(answer.status, 200);
    assert.equal(answer.headers.get("content-type"), mediaTypes.index);
    assert.deepEqual((answer.json() as Index).manifests, []);
    const bad = await client.get(`/v2/${name}/referrers/sha256:baddigeststring`);
    assert.equal(bad.status, 400);
    assert.equal(bad.code, "DIGEST_INVALID");
  });

  it("includes what clients listed under the fallback tag", async () => {
    const subject = await client.pushImage(name, "old-subject");
    const artifact = await client.pushImage(name, "old-artifact");
    const descriptor = {
      mediaType: mediaTypes.manifest,
      digest: artifact.digest,
      size: artifact.bytes.length,
    };
    const list = { schemaVersion: 2, mediaType: mediaTypes.index, manifests: [descriptor] };
    await client.pushManifest(name, subject.digest.replace(":", "-"), list);
    const found = ((await client.get(`/v2/${name}/referrers/${subject.digest}`)).json() as Index).manifests;
    assert.deepEqual(
      found.map((each) => each.digest),
      [artifact.digest],
    );
  });
});

describe("content management", () => {
  const name = "management/repository";
  let world: World;
  let client: Client;
  before(async () => {
    world = await startWorld();
    client = world.client;
  });
  after(() => world[Symbol.asyncDispose]());

  it("deletes a tag and nothing else (end-9)", async () => {
    const image = await client.pushImage(name, "tag-a");
    await client.pushManifest(name, "tag-b", image.bytes);
    assert.equal((await client.delete(`/v2/${name}/manifests/tag-a`)).status, 202);
    assert.equal((await client.get(`/v2/${name}/manifests/tag-a`)).status, 404);
    assert.equal((await client.head(`/v2/${name}/manifests/tag-a`)).status, 404);
    assert.equal((await client.get(`/v2/${name}/manifests/tag-b`)).status, 200);
    assert.equal((await client.get(`/v2/${name}/manifests/${image.digest}`)).status, 200);
  });

  it("deletes a manifest with all its tags", async () => {
    const image = await client.pushImage(name, "digest-a");
    await client.pushManifest(name, "digest-b", image.bytes);
    const other = await client.pushImage(name, "digest-c");
    assert.equal((await client.delete(`/v2/${name}/manifests/${image.digest}`)).status, 202);
    for (const reference of ["digest-a", "digest-b", image.digest])
      assert.equal((await client.get(`/v2/${name}/manifests/${reference}`)).status, 404, reference);
    const tags = ((await client.get(`/v2/${name}/tags/list`)).json() as { tags: string[] }).tags;
    assert.ok(!tags.includes("digest-a") && !tags.includes("digest-b") && tags.includes("digest-c"));
    assert.equal((await client.get(`/v2/${name}/manifests/${other.digest}`)).status, 200);
  });

  it("deletes a blob in one repository at once, and only there (end-10)", async () => {
    const content = randomBytes(100);
    const digest = await client.pushBlob(name, content);
    await client.pushBlob("management/other", content);
    assert.equal((await client.delete(`/v2/${name}/blobs/${digest}`)).status, 202);
    assert.equal((await client.get(`/v2/${name}/blobs/${digest}`)).status, 404);
    assert.equal((await client.head(`/v2/${name}/blobs/${digest}`)).status, 404);
    assert.deepEqual((await client.get(`/v2/management/other/blobs/${digest}`)).body, content);
    await client.pushBlob(name, content);
    assert.deepEqual((await client.get(`/v2/${name}/blobs/${digest}`)).body, content);
  });

  it("says 404 when there is nothing to delete", async () => {
    for (const [path, code] of [
      [`manifests/never`, "MANIFEST_UNKNOWN"],
      [`manifests/${computeDigest(randomBytes(3))}`, "MANIFEST_UNKNOWN"],
      [`blobs/${computeDigest(randomBytes(3))}`, "BLOB_UNKNOWN"],
    ] as const) {
      const answer = await client.delete(`/v2/${name}/${path}`);
      assert.equal(answer.status, 404, path);
      assert.equal(answer.code, code);
    }
  });
});
