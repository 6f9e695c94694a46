/**
 * A registry that is killed again and again, a record of what it was asked and what it promised, and the comparison
 * of the two: nothing promised may be lost, nothing may dangle, and after a garbage collection nothing may be left over.
 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdir, utimes } from "node:fs/promises";
import { join } from "node:path";
import { signalProcess } from "@cocoon/core";
import { temporaryDirectory, type TemporaryDirectory } from "@cocoon/testkit";
import { startChildRegistry, type ChildRegistry } from "./child.ts";
import { computeDigest, type as mediaTypes, withDigest, type Client, type ImageManifest } from "./world.ts";

/** What a tag may point to: one value when the last request about it was answered, more while one is open. */
type Possible = Set<string | undefined>;

export class KillWorld implements AsyncDisposable {
  readonly #directory: TemporaryDirectory;
  readonly root: string;
  readonly #tags = new Map<string, Possible>();
  readonly #manifests = new Map<string, ImageManifest>();
  #child: ChildRegistry | undefined;

  private constructor(directory: TemporaryDirectory) {
    this.#directory = directory;
    this.root = join(directory.path, "data");
  }

  static async create(): Promise<KillWorld> {
    const world = new KillWorld(await temporaryDirectory());
    await world.start();
    return world;
  }

  async start(): Promise<void> {
    const logFile = join(this.#directory.path, "log");
    this.#child = await startChildRegistry({ root: this.root, logFile });
  }

  get client(): Client {
    assert.ok(this.#child);
    return this.#child.client;
  }

  async kill(): Promise<void> {
    assert.ok(this.#child);
    signalProcess(this.#child.program.identity, "SIGKILL");
    await this.#child.program.exited;
  }

  /** Pushes an image with one layer; the server may die at any time. */
  async push(name: string, tag: string, layerBytes: number): Promise<void> {
    const { client } = this;
    const [config, layer] = [randomBytes(40), randomBytes(layerBytes)];
    for (const content of [config, layer]) {
      const answer = await client.put(withDigest(await client.begin(name), computeDigest(content)), {
        body: content,
      });
      assert.equal(answer.status, 201, answer.body.toString());
    }
    const manifest: ImageManifest = {
      schemaVersion: 2,
      mediaType: mediaTypes.manifest,
      config: { mediaType: mediaTypes.config, digest: computeDigest(config), size: config.length },
      layers: [{ mediaType: mediaTypes.layer, digest: computeDigest(layer), size: layer.length }],
    };
    const bytes = Buffer.from(JSON.stringify(manifest));
    this.#manifests.set(computeDigest(bytes), manifest);
    await this.#promise(name, tag, computeDigest(bytes), async () => {
      const answer = await client.pushManifest(name, tag, bytes);
      assert.equal(answer.status, 201, answer.body.toString());
    });
  }

  deleteTag(name: string, tag: string): Promise<void> {
    return this.#promise(name, tag, undefined, async () => {
      const { status } = await this.client.delete(`/v2/${name}/manifests/${tag}`);
      assert.ok(status === 202 || status === 404, String(status));
    });
  }

  /** Deletes the manifest behind a tag, and with it the tag. */
  deleteManifest(name: string, tag: string): Promise<void> {
    return this.#promise(name, tag, undefined, async () => {
      const head = await this.client.head(`/v2/${name}/manifests/${tag}`);
      const digest = head.headers.get("docker-content-digest");
      if (digest === null) return;
      const { status } = await this.client.delete(`/v2/${name}/manifests/${digest}`);
      assert.ok(status === 202 || status === 404, String(status));
    });
  }

  // oxlint-disable-next-line max-params -- which tag, to what, and how: an object would only repeat the names
  async #promise(
    name: string,
    tag: string,
    value: string | undefined,
    action: () => Promise<void>,
  ): Promise<void> {
    const key = `${name}:${tag}`;
    const possible = this.#tags.get(key) ?? new Set<string | undefined>([undefined]);
    this.#tags.set(key, possible.add(value));
    await action();
    this.#tags.set(key, new Set([value]));
  }

  collectGarbage(): Promise<unknown> {
    return this.client.post("/api/gc", { body: JSON.stringify({ lease: "0s", untagged: "0s" }) });
  }

  /** Every tag is where it was promised to be, complete, and its content is what it should be. */
  async assertPromisesKept(): Promise<void> {
    for (const [key, possible] of this.#tags) {
      const [name = "", tag = ""] = key.split(":");
      const answer = await this.client.get(`/v2/${name}/manifests/${tag}`);
      const digest = answer.status === 404 ? undefined : computeDigest(answer.body);
      assert.ok(possible.has(digest), `${key} is ${digest}, one of ${[...possible].join(", ")} was promised`);
      this.#tags.set(key, new Set([digest]));
      if (digest !== undefined) await this.#assertComplete(name, this.#manifests.get(digest));
    }
  }

  async #assertComplete(name: string, manifest: ImageManifest | undefined): Promise<void> {
    assert.ok(manifest);
    for (const { digest } of [manifest.config, ...manifest.layers]) {
      const blob = await this.client.get(`/v2/${name}/blobs/${digest}`);
      assert.equal(blob.status, 200, `${name} ${digest}`);
      assert.equal(computeDigest(blob.body), digest);
    }
  }

  /** After a garbage collection the disk holds what the tags reach, and nothing else. */
  async assertNothingLeftOver(): Promise<void> {
    const old = new Date(Date.now() - 2 * 86_400_000);
    for (const file of await filesBelow(this.root, "uploads")) await utimes(join(this.root, file), old, old);
    await this.collectGarbage();
    const expected = new Set<string>();
    for (const [key, [digest]] of [...this.#tags].map(([key, possible]) => [key, [...possible]] as const)) {
      const manifest = this.#manifests.get(digest ?? "");
      if (!manifest || digest === undefined) continue;
      const [name = "", tag = ""] = key.split(":");
      const folder = name.replaceAll("/", "+");
      expected.add(`tags/${folder}/${tag}`).add(`manifests/${folder}/${digest.replace(":", "-")}`);
      for (const blob of [manifest.config, ...manifest.layers]) {
        expected.add(`links/${folder}/${blob.digest.replace(":", "-")}`);
        expected.add(`blobs/${blob.digest.replace(":", "/")}`);
      }
    }
    const found: string[] = [];
    for (const folder of ["tags", "manifests", "links", "blobs", "referrers", "incoming", "uploads"])
      found.push(...(await filesBelow(this.root, folder)));
    assert.deepEqual(found.sort(), [...expected].sort());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child?.[Symbol.asyncDispose]();
    await this.#directory[Symbol.asyncDispose]();
  }
}

async function filesBelow(root: string, folder: string): Promise<string[]> {
  try {
    const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true });
    return entries
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(root.length + 1));
  } catch {
    return []; // there is no such folder
  }
}
