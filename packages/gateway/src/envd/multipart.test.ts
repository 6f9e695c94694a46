import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { testSeed } from "@cocoon/testkit";
import { ApiError } from "../http/answer.ts";
import { readBoundary, readParts } from "./multipart.ts";

async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

async function readForm(source: AsyncIterable<Buffer>, boundary: string) {
  const parts: { name: string; filename: string | undefined; content: Buffer }[] = [];
  for await (const { name, filename, content } of readParts(source, boundary))
    parts.push({ name, filename, content: Buffer.concat(await Array.fromAsync(content)) });
  return parts;
}

/** As fetch sends it. */
async function encodeForm(files: readonly { readonly name: string; readonly content: Uint8Array }[]) {
  const form = new FormData();
  for (const { name, content } of files) form.append("file", new Blob([Buffer.from(content)]), name);
  const response = new Response(form);
  const boundary = readBoundary(response.headers.get("content-type") ?? "");
  return { bytes: Buffer.from(await response.arrayBuffer()), boundary };
}

test("parts are read however the bytes are cut", async () => {
  const file = fc.record({
    name: fc.constantFrom("a.txt", "/tmp/b.txt", 'quo"te', "späce ü"),
    content: fc.oneof(
      fc.uint8Array({ maxLength: 300 }),
      fc.constantFrom(Buffer.from("\r\n--"), Buffer.from("\r\n------")),
    ),
  });
  const property = fc.asyncProperty(
    fc.array(file, { minLength: 1, maxLength: 4 }),
    fc.integer({ min: 1, max: 64 }),
    async (files, size) => {
      const { bytes, boundary } = await encodeForm(files);
      const parts = await readForm(inPieces(bytes, size), boundary);
      assert.deepEqual(
        parts.map(({ filename, content }) => [filename, [...content]]),
        files.map(({ name, content }) => [name, [...content]]),
      );
    },
  );
  await fc.assert(property, { seed: testSeed(), numRuns: 60 });
});

test("a body that is cut, or none at all, is a bad request", async () => {
  const { bytes, boundary } = await encodeForm([{ name: "a", content: Buffer.from("content") }]);
  for (const body of [bytes.subarray(0, -10), Buffer.from("no parts"), Buffer.alloc(0)])
    await assert.rejects(
      readForm(inPieces(body, 7), boundary),
      (error) => error instanceof ApiError && error.status === 400,
    );
});
