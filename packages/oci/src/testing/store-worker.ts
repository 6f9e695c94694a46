/** Run by tests as a process of its own: fills a chunk store and pins, until it is killed. */
import { hash, randomBytes } from "node:crypto";
import { ChunkStore } from "../chunks/chunk-store.ts";

const store = await ChunkStore.open({ directory: process.argv[2] ?? "", limitBytes: 20_000 });
for (let number = 0; ; number += 1) {
  const bytes = randomBytes(3000);
  const digest = `sha256:${hash("sha256", bytes)}`;
  const id = hash("sha256", bytes.subarray(0, 1000));
  const chunk = { id, offset: 0, length: 1000, rawLength: 1000, encoding: "raw" } as const;
  if (number % 3 === 0) store.pin(`vm-${process.pid}-${number}`, [digest]);
  await store.addPack({ digest, chunks: [chunk], write: (file) => file.write(bytes, 0) });
  if (number % 3 === 0) process.send?.({ digest });
}
