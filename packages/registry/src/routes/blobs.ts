/** Reading and deleting blobs, and epoch's own way to push one: the whole content in one PUT. */
import type { Exchange, Headers } from "../http/exchange.ts";
import type { Handler, RouteTable } from "../http/handler.ts";
import { readRange } from "../http/ranges.ts";
import { quoted, type Digest } from "../names.ts";
import { ociFault } from "../oci-fault.ts";
import type { ByteRange, OpenObject } from "../storage/storage.ts";
import { answerCommitted, receiveBlob } from "./receive-blob.ts";

/** Up to this size one read and one write are cheaper than a stream. */
const smallBytes = 64 * 1024;

const get: Handler<"blob"> = async (exchange, { name, digest }, { blobs, metrics }) => {
  if (exchange.method === "HEAD") {
    const sizeBytes = await blobs.find(name, digest);
    if (sizeBytes === undefined) throw unknownBlob(digest);
    exchange.send(200, contentHeaders(digest, sizeBytes));
    return;
  }
  await using blob = await blobs.open(name, digest);
  if (!blob) throw unknownBlob(digest);
  const answer = readRange(exchange.header("range"), blob.sizeBytes);
  if (answer.kind === "unsatisfiable") {
    exchange.response.setHeader("content-range", `bytes */${blob.sizeBytes}`);
    throw ociFault(
      "SIZE_INVALID",
      `range ${quoted(exchange.header("range") ?? "")} is outside of the ${blob.sizeBytes} bytes`,
      {
        as: "rangeNotSatisfiable",
      },
    );
  }
  const sent = await sendContent(exchange, {
    blob,
    digest,
    range: answer.kind === "part" ? answer.range : undefined,
  });
  metrics.countBytes("out", sent);
};

async function sendContent(
  exchange: Exchange,
  { blob, digest, range }: { blob: OpenObject; digest: Digest; range: ByteRange | undefined },
): Promise<number> {
  const { response, signal } = exchange;
  const length = range ? range.end - range.start + 1 : blob.sizeBytes;
  const part = range ? { "content-range": `bytes ${range.start}-${range.end}/${blob.sizeBytes}` } : {};
  const headers = { ...contentHeaders(digest, length), ...part };
  if (blob.sizeBytes <= smallBytes) {
    const bytes = await blob.readAll();
    exchange.send(range ? 206 : 200, headers, range ? bytes.subarray(range.start, range.end + 1) : bytes);
    return length;
  }
  response.writeHead(range ? 206 : 200, headers);
  await blob.copyTo(response, { signal, range });
  response.end();
  return length;
}

function contentHeaders(digest: Digest, sizeBytes: number): Headers {
  return {
    "content-type": "application/octet-stream",
    "content-length": sizeBytes,
    "docker-content-digest": digest,
    "accept-ranges": "bytes",
  };
}

const remove: Handler<"blob"> = async (exchange, { name, digest }, { blobs }) => {
  if (!(await blobs.unlink(name, digest))) throw unknownBlob(digest);
  exchange.send(202, {});
};

const putWhole: Handler<"blob"> = async (exchange, { name, digest }, services) => {
  await receiveBlob(exchange, { name, digest }, services);
  answerCommitted(exchange, { name, digest });
};

function unknownBlob(digest: Digest): Error {
  return ociFault("BLOB_UNKNOWN", `there is no blob ${digest} in this repository`);
}

export const blobRoutes = {
  blob: { GET: get, PUT: putWhole, DELETE: remove },
} satisfies Partial<RouteTable>;
