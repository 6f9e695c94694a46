/** Upload sessions: open (or mount, or push at once), append, status, finish, cancel. */
import { allows } from "../auth/access.ts";
import type { Exchange, Headers } from "../http/exchange.ts";
import type { Handler, RouteTable } from "../http/handler.ts";
import { tryChunkRange } from "../http/ranges.ts";
import { digest, quoted, repositoryName, tryDigest, type Digest, type RepositoryName } from "../names.ts";
import { ociFault } from "../oci-fault.ts";
import type { Services } from "../open-services.ts";
import type { UploadSession } from "../uploads/upload-session.ts";
import {
  answerCommitted,
  appendBody,
  commitSession,
  isSmall,
  readSmall,
  receiveBlob,
  storeSmall,
} from "./receive-blob.ts";

const begin: Handler<"uploads"> = async (exchange, { name }, services) => {
  const { query } = exchange;
  const mount = tryDigest(query.get("mount") ?? "");
  if (mount && (await tryMount(exchange, { name, digest: mount }, services))) {
    answerCommitted(exchange, { name, digest: mount });
    return;
  }
  const given = query.get("digest");
  if (given !== null) {
    const wanted = digest(given);
    await receiveBlob(exchange, { name, digest: wanted }, services);
    answerCommitted(exchange, { name, digest: wanted });
    return;
  }
  exchange.send(202, sessionHeaders(await services.uploads.begin({ name, caller: exchange.callerId })));
};

/** Only what the caller could pull from there may be mounted: knowing a digest must not be enough to read the blob. */
async function tryMount(
  exchange: Exchange,
  { name, digest }: { name: RepositoryName; digest: Digest },
  { blobs }: Services,
): Promise<boolean> {
  const from = exchange.query.get("from");
  const scopes = exchange.caller?.scopes ?? [];
  if (from === null) {
    const readsAll = allows(scopes, { kind: "repository", name: "*" as RepositoryName, action: "pull" });
    return readsAll && blobs.mountFromAnywhere(name, digest);
  }
  const source = repositoryName(from);
  if (!allows(scopes, { kind: "repository", name: source, action: "pull" })) return false;
  return blobs.mount(name, digest, source);
}

const append: Handler<"upload"> = async (exchange, { name, session: id }, services) => {
  const session = await services.uploads.find({ name, caller: exchange.callerId }, id);
  await session.own(exchange.request, async (owner) => {
    const exactBytes = readChunkLength(exchange, session);
    await appendBody(exchange, { session, owner, services, exactBytes });
  });
  exchange.send(202, sessionHeaders(session));
};

const finish: Handler<"upload"> = async (exchange, { name, session: id }, services) => {
  const session = await services.uploads.find({ name, caller: exchange.callerId }, id);
  const target = { name, digest: digest(exchange.query.get("digest") ?? "") };
  await session.own(exchange.request, async (owner) => {
    const exactBytes = readChunkLength(exchange, session);
    if (session.sizeBytes === 0 && isSmall(exchange)) {
      const content = await readSmall(exchange, target, services);
      await owner.commitOther(() => storeSmall(target, content, services));
      return;
    }
    if (exchange.contentLength !== 0)
      await appendBody(exchange, { session, owner, services, digest: target.digest, exactBytes });
    await commitSession(session, { owner, digest: target.digest, services });
  });
  answerCommitted(exchange, target);
};

const status: Handler<"upload"> = async (exchange, { name, session: id }, { uploads }) => {
  exchange.send(204, sessionHeaders(await uploads.find({ name, caller: exchange.callerId }, id)));
};

const cancel: Handler<"upload"> = async (exchange, { name, session: id }, { uploads }) => {
  const session = await uploads.find({ name, caller: exchange.callerId }, id);
  await session.abort();
  exchange.send(204, {});
};

/**
 * The length of a chunk that says where it belongs; undefined without Content-Range. Throws when the chunk does not start
 * at the end of what is stored.
 */
function readChunkLength(exchange: Exchange, session: UploadSession): number | undefined {
  const header = exchange.header("content-range");
  if (header === undefined) return undefined;
  const range = tryChunkRange(header);
  if (!range)
    throw ociFault("BLOB_UPLOAD_INVALID", `Content-Range ${quoted(header)} is not of the form start-end`);
  if (range.start !== session.sizeBytes) {
    for (const [key, value] of Object.entries(sessionHeaders(session)))
      exchange.response.setHeader(key, value);
    throw ociFault(
      "BLOB_UPLOAD_INVALID",
      `the chunk starts at ${range.start}, but the upload has ${session.sizeBytes} bytes`,
      { as: "rangeNotSatisfiable" },
    );
  }
  const chunkBytes = range.end - range.start + 1;
  const length = exchange.contentLength;
  if (length !== undefined && length !== chunkBytes)
    throw ociFault(
      "SIZE_INVALID",
      `Content-Range ${quoted(header)} and Content-Length ${length} do not agree`,
    );
  return chunkBytes;
}

function sessionHeaders(session: UploadSession): Headers {
  return {
    location: `/v2/${session.name}/blobs/uploads/${session.id.text}`,
    "docker-upload-uuid": session.id.text,
    range: `0-${Math.max(0, session.sizeBytes - 1)}`,
  };
}

export const uploadRoutes = {
  uploads: { POST: begin },
  upload: { GET: status, PATCH: append, PUT: finish, DELETE: cancel },
} satisfies Partial<RouteTable>;
