/** A process that is killed while it makes an image leaves either the image or nothing that the next gc would not take. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { count, killChild, seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";
import { openImageLibrary } from "@cocoon/images";

const worker = join(import.meta.dirname, "crash-worker.ts");

test("whenever a pull dies, images are whole and garbage can be told from them", async (t) => {
  await using directory = await temporaryDirectory();
  const random = seededRandom(testSeed());
  const file = join(directory.path, "disk.raw");
  const root = join(directory.path, "library");
  const library = openImageLibrary({ directory: root });
  for (let round = 0; round < count({ small: 5, full: 60 }); round += 1) {
    const content = Buffer.concat([Buffer.alloc(512), randomBytes(8 * 2 ** 20)]);
    content.set([0xeb], 0);
    content.set([0x55, 0xaa], 510);
    await writeFile(file, content);
    const child = spawn(process.execPath, [worker, root, file], { stdio: ["ignore", "pipe", "inherit"] });
    await once(child.stdout, "data");
    await new Promise((resolve) => setTimeout(resolve, random() * 400));
    await killChild(child);

    const images = await library.list(t);
    assert.ok(images.length <= 1);
    await library.gc(t);
    // One that died early had not even made its place of work.
    const work = await readdir(join(root, "work")).catch(() => []);
    assert.deepEqual(work, [], "work of the dead is gone");
    const blobs = await readdir(join(root, "blobs")).catch(() => []);
    assert.equal(blobs.length, images.length, "a blob for each image and no other");
    for (const { name } of images) {
      const { disk } = await library.resolve(name, t);
      const bytes = await readFile(disk.path);
      assert.equal(bytes.length, content.length);
    }
    await library.pull(file, t);
    const { disk } = await library.resolve(file, t);
    assert.ok((await readFile(disk.path)).equals(content), "the next pull brings what is there now");
  }
});
