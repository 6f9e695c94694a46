/**
 * Random requests on one upload session, several at a time: chunks with and without Content-Range, senders that stall or
 * die in the middle, status, commits and cancellations. The model is one sentence: whatever happened before, a blob that
 * was answered with 201 is there, and its bytes are what its digest says.
 */
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { seededRandom } from "@cocoon/testkit";
import { beginRequest } from "./raw-request.ts";
import { computeDigest, withDigest, type World } from "./world.ts";

export interface ModelOptions {
  readonly seed: number;
  /** Longer than a stalled sender keeps its session. */
  readonly stallMs: number;
  readonly actors: number;
  readonly steps: number;
}

interface Session {
  readonly path: string;
  readonly content: Buffer;
}

const name = "model/app";

/** Runs one session; returns how many commits were answered with 201. */
export async function runUploadModel(world: World, options: ModelOptions): Promise<number> {
  const random = seededRandom(options.seed);
  const content = Buffer.from(
    Array.from({ length: 2_000 }, () => String(random()))
      .join("")
      .slice(0, 30_000),
  );
  const session = { path: await world.client.begin(name), content };
  const committed: string[] = [];
  const actor = async () => {
    for (let step = 0; step < options.steps; step += 1) {
      const digest = await runStep(world, session, { random, stallMs: options.stallMs }).catch(ignoreCut);
      if (digest !== undefined) committed.push(digest);
    }
  };
  await Promise.all(Array.from({ length: options.actors }, actor));
  await commitRest(world, session, committed);
  for (const digest of new Set(committed)) await assertIntact(world, digest);
  return committed.length;
}

/** A request that another one replaced loses its connection. */
function ignoreCut(error: unknown): undefined {
  if (!(error instanceof TypeError && error.message === "fetch failed")) throw error;
}

interface Chance {
  readonly random: () => number;
  readonly stallMs: number;
}

/** One request; the digest when it committed the session. */
async function runStep(
  world: World,
  { path, content }: Session,
  { random, stallMs }: Chance,
): Promise<string | undefined> {
  const known = await findSize(world, path);
  const size = known ?? Math.floor(random() * content.length);
  const end = Math.min(content.length, size + 1 + Math.floor(random() * 6_000));
  const piece = content.subarray(size, end);
  const choice = random();
  if (choice < 0.3) {
    await world.client.patch(path, { body: piece, headers: { "content-range": `${size}-${end - 1}` } });
    return undefined;
  }
  if (choice < 0.45) return void (await world.client.patch(path, { body: piece }));
  if (choice < 0.6) return stallInBody(world, { path, piece }, { random, stallMs });
  if (choice < 0.65) return void (await world.client.delete(path));
  if (choice < 0.8) return commitAs(world, path, { digest: computeDigest(content.subarray(0, size)) });
  const digest = computeDigest(content.subarray(0, end));
  return commitAs(world, path, { digest, body: piece });
}

async function findSize(world: World, path: string): Promise<number | undefined> {
  const answer = await world.client.get(path);
  const last = /^0-(\d+)$/.exec(answer.headers.get("range") ?? "")?.[1];
  if (last === undefined) return undefined;
  return last === "0" ? 0 : Number(last) + 1;
}

/** A sender that stops in the middle: it ends by itself, is replaced by another request, or dies. */
async function stallInBody(
  world: World,
  { path, piece }: { readonly path: string; readonly piece: Buffer },
  { random, stallMs }: Chance,
): Promise<undefined> {
  const { socket } = await beginRequest(world, { method: "PATCH", path, length: piece.length });
  const at = Math.floor(piece.length / 2);
  socket.write(piece.subarray(0, at));
  await delay(random() < 0.5 ? stallMs * 2 : stallMs / 4);
  if (random() < 0.5) socket.write(piece.subarray(at));
  else socket.destroy();
  await delay(5);
  socket.destroy();
}

async function commitAs(
  world: World,
  path: string,
  { digest, body }: { readonly digest: string; readonly body?: Buffer },
): Promise<string | undefined> {
  const answer = await world.client.put(withDigest(path, digest), body ? { body } : {});
  return answer.status === 201 ? digest : undefined;
}

/** If no actor ended the session, end it with what is missing: a commit after all the rest must work as well. */
async function commitRest(world: World, { path, content }: Session, committed: string[]): Promise<void> {
  await delay(50); // a request of a client that died may still hold the session
  const size = await findSize(world, path);
  if (size === undefined || committed.length > 0) return;
  const digest = await commitAs(world, path, {
    digest: computeDigest(content),
    body: content.subarray(size),
  });
  if (digest !== undefined) committed.push(digest);
}

async function assertIntact(world: World, digest: string): Promise<void> {
  const pulled = await world.client.get(`/v2/${name}/blobs/${digest}`);
  assert.equal(pulled.status, 200, `${digest} was committed and is not there`);
  assert.equal(
    computeDigest(pulled.body),
    digest,
    `${digest} has ${pulled.body.length} bytes that are not its own`,
  );
}
