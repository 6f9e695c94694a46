import assert from "node:assert/strict";
import fc from "fast-check";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { duplexPair } from "node:stream";
import { test } from "node:test";
import { constants, createDeflate } from "node:zlib";
import { isFault } from "@cocoon/core";
import { count, eventually } from "@cocoon/testkit";
import { spdyDictionary, HeaderDecoder, HeaderEncoder } from "./spdy-headers.ts";
import { controlType, dataFrame, FrameParser, ping } from "./spdy-frames.ts";
import { SpdySession, type SpdyStream } from "./spdy-session.ts";

test("the dictionary is the one that the protocol names", () => {
  assert.equal(spdyDictionary.length, 1423);
  const digest = createHash("sha256").update(spdyDictionary).digest("hex");
  assert.equal(digest, "51d27341373f923f3cd88e1eb7162aeaa3723d7585ff2399201dc06498407f02");
});

/** The peer's side: one deflate stream with the preset dictionary, flushed after each block. */
class HeaderWriter {
  readonly #deflate = createDeflate({ dictionary: spdyDictionary });

  async block(headers: Readonly<Record<string, string>>): Promise<Buffer> {
    const pairs = Object.entries(headers);
    const parts = [word(pairs.length)];
    for (const text of pairs.flat())
      parts.push(word(Buffer.byteLength(text, "latin1")), Buffer.from(text, "latin1"));
    const chunks: Buffer[] = [];
    const collect = (chunk: Buffer) => void chunks.push(chunk);
    this.#deflate.on("data", collect);
    this.#deflate.write(Buffer.concat(parts));
    await new Promise<void>((resolve) => this.#deflate.flush(constants.Z_SYNC_FLUSH, () => resolve()));
    this.#deflate.off("data", collect);
    return Buffer.concat(chunks);
  }

  async synStream(id: number, headers: Readonly<Record<string, string>>): Promise<Buffer> {
    const payload = Buffer.concat([word(id), word(0), Buffer.alloc(2), await this.block(headers)]);
    return control(controlType.synStream, payload);
  }
}

function word(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

function control(type: number, payload: Buffer, flags = 0): Buffer {
  const header = Buffer.alloc(8);
  header.writeUInt16BE(0x8003, 0);
  header.writeUInt16BE(type, 2);
  header[4] = flags;
  header.writeUIntBE(payload.length, 5, 3);
  return Buffer.concat([header, payload]);
}

test("many header blocks of one connection decode, also beyond the window", async () => {
  const writer = new HeaderWriter();
  const decoder = new HeaderDecoder();
  for (let round = 0; round < 200; round += 1) {
    const headers = { streamtype: "data", port: String(round), requestid: "x".repeat(round * 7) };
    assert.deepEqual(Object.fromEntries(decoder.decode(await writer.block(headers))), headers);
  }
});

test("a block that unpacks to too much, lies about its length or is noise is refused", async () => {
  const bomb = await new HeaderWriter().block({ a: "x".repeat(100_000) });
  assert.throws(
    () => new HeaderDecoder().decode(bomb),
    (error) => isFault(error, "badRequest"),
  );
  for (const bytes of ["", "78", "7801", "78010004", "00ffffff"]) {
    assert.throws(
      () => new HeaderDecoder().decode(Buffer.from(bytes, "hex")),
      (error) => isFault(error, "badRequest"),
      bytes,
    );
  }
});

test("our header blocks are one valid zlib stream", () => {
  const encoder = new HeaderEncoder();
  const decoder = new HeaderDecoder();
  for (let round = 0; round < 5; round += 1) assert.equal(decoder.decode(encoder.empty()).size, 0);
  const headers = { streamtype: "data", port: "8080" };
  assert.deepEqual(Object.fromEntries(decoder.decode(encoder.encode(headers))), headers);
});

interface Seen {
  readonly data: Map<number, string>;
  readonly ended: Set<number>;
  readonly controls: string[];
}

function parseInPieces(bytes: Buffer, sizes: readonly number[]): Seen {
  const seen: Seen = { data: new Map(), ended: new Set(), controls: [] };
  const parser = new FrameParser({
    onData: (id, piece, end) => {
      seen.data.set(id, (seen.data.get(id) ?? "") + piece.toString("hex"));
      if (end) seen.ended.add(id);
    },
    onControl: (type, flags, payload) =>
      void seen.controls.push(`${type} ${flags} ${payload.toString("hex")}`),
  });
  let offset = 0;
  for (let index = 0; offset < bytes.length; index += 1) {
    const size = sizes.length === 0 ? bytes.length : (sizes[index % sizes.length] ?? 1);
    parser.push(bytes.subarray(offset, offset + size));
    offset += size;
  }
  return seen;
}

const anyFrame = fc.oneof(
  fc
    .record({
      id: fc.integer({ min: 1, max: 9 }),
      body: fc.uint8Array({ maxLength: 300 }),
      fin: fc.boolean(),
    })
    .map(({ id, body, fin }) => dataFrame(id, body, fin)),
  fc
    .record({
      type: fc.integer({ min: 1, max: 20 }),
      flags: fc.integer({ min: 0, max: 255 }),
      body: fc.uint8Array({ maxLength: 100 }),
    })
    .map(({ type, flags, body }) => control(type, Buffer.from(body), flags)),
);

test("frames mean the same however they are cut into chunks", () => {
  fc.assert(
    fc.property(
      fc.array(anyFrame, { maxLength: 12 }),
      fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1 }),
      (frames, sizes) => {
        const bytes = Buffer.concat(frames);
        assert.deepEqual(parseInPieces(bytes, sizes), parseInPieces(bytes, []));
      },
    ),
    { numRuns: count({ small: 200, full: 5_000 }) },
  );
});

function serve(
  overflow: "pause" | "resetStalled",
  extra: { maximumBufferedBytes?: number; stallMs?: number } = {},
) {
  const [client, transport] = duplexPair();
  const streams: SpdyStream[] = [];
  const session = new SpdySession({
    transport,
    overflow,
    pingIntervalMs: 3_600_000, // a ping of its own would be one frame more than was sent
    ...extra,
    onStream: (stream, headers) => {
      if (headers.get("streamtype") === "bad") throw new Error("refused");
      streams.push(stream);
    },
  });
  session.start(Buffer.alloc(0));
  const received: Buffer[] = [];
  client.on("data", (chunk: Buffer) => void received.push(chunk));
  return {
    client,
    session,
    streams,
    seen: () => parseInPieces(Buffer.concat(received), []),
    writes: () => received.length,
    writer: new HeaderWriter(),
  };
}

test("a stream is answered, echoes, half-closes both ways; odd pings are answered, even ones are not", async () => {
  const { client, streams, seen, writer } = serve("pause");
  client.write(await writer.synStream(1, { streamtype: "stdin" }));
  client.write(ping(7));
  client.write(ping(8));
  await eventually(() => assert.equal(streams.length, 1));
  const [stream] = streams;
  assert.ok(stream);
  stream.pipe(stream);
  client.write(dataFrame(1, Buffer.from("hello")));
  client.write(dataFrame(1, Buffer.alloc(0), true));
  await eventually(() => {
    assert.equal(seen().data.get(1), Buffer.from("hello").toString("hex"));
    assert.ok(seen().ended.has(1));
  });
  const controls = seen().controls.map((line) => line.split(" ")[0]);
  assert.deepEqual(controls, [String(controlType.synReply), String(controlType.ping)]);
});

test("a first small piece goes out at once, and those that follow it go out together", async ({ mock }) => {
  const { client, streams, seen, writes, writer } = serve("pause");
  client.write(await writer.synStream(1, { streamtype: "data" }));
  await eventually(() => assert.equal(streams.length, 1));
  const before = writes();
  const turn = () => new Promise((resolve) => setImmediate(resolve));
  mock.timers.enable({ apis: ["setTimeout"] });
  const pieces = Array.from({ length: 20 }, (_each, index) => Buffer.alloc(100, index));
  for (const piece of pieces) {
    streams[0]?.write(piece);
    await turn();
    assert.equal(seen().data.get(1), pieces[0]?.toString("hex"), "the first is out, the others wait");
  }
  mock.timers.tick(1);
  await turn();
  assert.equal(seen().data.get(1), Buffer.concat(pieces).toString("hex"));
  assert.equal(writes() - before, 2);
});

test("a refused stream is reset and the connection lives on", async () => {
  const { client, streams, seen, writer } = serve("pause");
  client.write(await writer.synStream(1, { streamtype: "bad" }));
  client.write(await writer.synStream(3, { streamtype: "data" }));
  await eventually(() => assert.equal(streams.length, 1));
  assert.deepEqual(
    seen().controls.map((line) => line.split(" ")[0]),
    [String(controlType.rstStream), String(controlType.synReply)],
  );
});

test("a slow reader is waited for, and nothing of what it reads is lost", async () => {
  const filled = Buffer.alloc(64 * 1024, 1);
  const { client, writer, streams } = serve("resetStalled", {
    maximumBufferedBytes: 256 * 1024,
    stallMs: 5_000, // between two pieces a slow reader takes far less, also on a busy machine
  });
  client.write(await writer.synStream(1, { streamtype: "data" }));
  for (let round = 0; round < 32; round += 1) client.write(dataFrame(1, filled));
  client.write(dataFrame(1, Buffer.alloc(0), true));
  await eventually(() => assert.equal(streams.length, 1));
  let total = 0;
  for await (const chunk of streams[0] ?? []) {
    total += (chunk as Buffer).length;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
  assert.equal(total, 32 * filled.length);
});

test("one unread stream is reset alone, or pauses the connection, as asked", async () => {
  const filled = Buffer.alloc(64 * 1024, 1);
  const resetting = serve("resetStalled", { maximumBufferedBytes: 256 * 1024, stallMs: 20 });
  resetting.client.write(await resetting.writer.synStream(1, { streamtype: "data" }));
  resetting.client.write(await resetting.writer.synStream(3, { streamtype: "data" }));
  for (let round = 0; round < 8; round += 1) resetting.client.write(dataFrame(1, filled));
  resetting.client.write(dataFrame(3, Buffer.from("ok")));
  await eventually(() => {
    assert.equal(resetting.streams[0]?.destroyed, true);
    assert.equal(resetting.streams[1]?.readableLength, 2);
  });

  const pausing = serve("pause", { maximumBufferedBytes: 256 * 1024 });
  pausing.client.write(await pausing.writer.synStream(1, { streamtype: "stdin" }));
  for (let round = 0; round < 64; round += 1) pausing.client.write(dataFrame(1, filled));
  pausing.client.write(dataFrame(1, Buffer.alloc(0), true));
  await eventually(() => assert.equal(pausing.streams.length, 1));
  const [stream] = pausing.streams;
  assert.ok(stream);
  await eventually(() => assert.ok(stream.readableLength >= 256 * 1024));
  let total = 0;
  for await (const chunk of stream) total += (chunk as Buffer).length;
  assert.equal(total, 64 * filled.length, "everything arrives once it is read");
});

test("whatever bytes come, nothing crashes and the connection ends", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.oneof(anyFrame, fc.uint8Array({ maxLength: 60 })), { minLength: 1, maxLength: 8 }),
      async (parts) => {
        const { client, session } = serve("resetStalled");
        const closed = session.closed.aborted ? undefined : once(session.closed, "abort");
        for (const part of parts) client.write(Buffer.from(part));
        client.end();
        await closed;
      },
    ),
    { numRuns: count({ small: 200, full: 10_000 }) },
  );
});
