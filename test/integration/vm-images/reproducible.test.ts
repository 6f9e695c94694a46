/** The demo image is the same bytes wherever it is built, and building it needs no privilege. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, chown, readdir } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { fullTierOnly, temporaryDirectory } from "@cocoon/testkit";
import { demoImageName, openImageLibrary } from "@cocoon/images";

const { skip } = fullTierOnly("fetches and builds everything twice");
const module = join(import.meta.dirname, "../../../packages/images/src/index.ts");
const nobody = 65_534;

/** In a process of an ordinary user, when we may start one. */
async function buildAsNobody(cacheDir: string): Promise<void> {
  const isRoot = process.getuid?.() === 0;
  const script = `const { demoImageName, openImageLibrary } = await import(${JSON.stringify(module)});
    const library = openImageLibrary({ directory: ${JSON.stringify(cacheDir)} });
    await library.pull(demoImageName, { signal: AbortSignal.timeout(600000) });
    await library.resolve(demoImageName, { signal: AbortSignal.timeout(600000) });`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "ignore", "pipe"],
    env: { PATH: process.env["PATH"] ?? "", HOME: cacheDir },
    ...(isRoot ? { uid: nobody, gid: nobody } : {}),
  });
  const [said, [code]] = await Promise.all([text(child.stderr), once(child, "exit") as Promise<[number]>]);
  assert.equal(code, 0, said);
}

test("two users build the same kernel, initramfs and disk", { skip }, async (t) => {
  await using first = await temporaryDirectory();
  await using second = await temporaryDirectory();
  await chmod(second.path, 0o755);
  if (process.getuid?.() === 0) await chown(second.path, nobody, nobody);
  const library = openImageLibrary({ directory: first.path });
  await library.pull(demoImageName, { signal: t.signal });
  await library.resolve(demoImageName, { signal: t.signal });
  await buildAsNobody(second.path);
  const blobs = await Promise.all([first, second].map(({ path }) => readdir(join(path, "blobs"))));
  assert.deepEqual(blobs[1]?.sort(), blobs[0]?.sort());
  assert.equal(blobs[0]?.length, 5, "guest program, busybox, kernel, initramfs, disk");
});
