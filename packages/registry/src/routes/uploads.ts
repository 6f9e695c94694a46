/** Upload sessions: open (or mount, or push at once), append, ask, finish, cancel. */
import { allows } from "../auth/access.ts";
import type { Exchange, Headers } from "../http/exchange.ts";
import type { Handler, Methods } from "../http/handler.ts";
import { tryChunkRange } from "../http/ranges.ts";
import { digest, quoted, repositoryName, tryDigest, type Digest, type RepositoryName } from "../names.ts";
import { ociFault } from "../oci-fault.ts";
import type { Services } from "../services.ts";
import type { UploadSession } from "../uploads/upload-session.ts";
import { answerCommitted, appendTo, commitSession, isSmall, receiveBlob } from "./receive-blob.ts";

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
  exchange.send(202, sessionHeaders(services.uploads.begin(name)));
};

/** Only what the caller could pull from there may be mounted: a digest alone must not open a door. */
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
  const session = await services.uploads.find(name, id);
  const assertFollows = () => assertChunkFollows(exchange, session);
  assertFollows();
  await appendTo(session, exchange, { services, assertFollows });
  exchange.send(202, sessionHeaders(session));
};

const finish: Handler<"upload"> = async (exchange, { name, session: id }, services) => {
  const session = await services.uploads.find(name, id);
  const wanted = digest(exchange.query.get("digest") ?? "");
  const assertFollows = () => assertChunkFollows(exchange, session);
  assertFollows();
  if (session.sizeBytes === 0 && isSmall(exchange) && !session.busy) {
    await services.uploads.cancel(session); // an empty append may have opened its file
    await receiveBlob(exchange, { name, digest: wanted }, services);
  } else {
    if (exchange.contentLength !== 0)
      await appendTo(session, exchange, { services, digest: wanted, assertFollows });
    await commitSession(session, wanted, services);
  }
  answerCommitted(exchange, { name, digest: wanted });
};

const status: Handler<"upload"> = async (exchange, { name, session: id }, { uploads }) => {
  exchange.send(204, sessionHeaders(await uploads.find(name, id)));
};

const cancel: Handler<"upload"> = async (exchange, { name, session: id }, { uploads }) => {
  await uploads.cancel(await uploads.find(name, id));
  exchange.send(204, {});
};

/** A chunk that says where it belongs must belong at the end of what is there. */
function assertChunkFollows(exchange: Exchange, session: UploadSession): void {
  const header = exchange.header("content-range");
  if (header === undefined) return;
  const range = tryChunkRange(header);
  if (!range)
    throw ociFault("BLOB_UPLOAD_INVALID", `Content-Range ${quoted(header)} is not of the form start-end`);
  if (range.start !== session.sizeBytes) {
    for (const [key, value] of Object.entries(sessionHeaders(session)))
      exchange.response.setHeader(key, value);
    throw ociFault(
      "BLOB_UPLOAD_INVALID",
      `the chunk starts at ${range.start}, but ${session.sizeBytes} bytes are here`,
      { as: "rangeNotSatisfiable" },
    );
  }
  const length = exchange.contentLength;
  if (length !== undefined && length !== range.end - range.start + 1)
    throw ociFault(
      "SIZE_INVALID",
      `Content-Range ${quoted(header)} and Content-Length ${length} do not agree`,
    );
}

function sessionHeaders(session: UploadSession): Headers {
  return {
    location: `/v2/${session.name}/blobs/uploads/${session.id.text}`,
    "docker-upload-uuid": session.id.text,
    range: `0-${Math.max(0, session.sizeBytes - 1)}`,
  };
}

export const uploadsRoute: Methods<"uploads"> = { POST: begin };
export const uploadRoute: Methods<"upload"> = { GET: status, PATCH: append, PUT: finish, DELETE: cancel };
