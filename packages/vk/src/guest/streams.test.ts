import assert from "node:assert/strict";
import { duplexPair, PassThrough } from "node:stream";
import { test } from "node:test";
import { joinStream } from "./streams.ts";

function openJoined() {
  const [guest, ours] = duplexPair();
  const [stdin, stdout] = [new PassThrough(), new PassThrough()];
  const leaving = new AbortController();
  const ended = joinStream(ours, {
    stdin,
    stdout,
    tty: false,
    stderr: undefined,
    resize: undefined,
    signal: leaving.signal,
  });
  return { guest, ours, stdin, stdout, leaving, ended };
}

test("bytes go both ways, and the end of the guest's stream is the end", async () => {
  const { guest, stdin, stdout, ended } = openJoined();
  stdin.write("keys");
  assert.equal(String((await guest.take(1).toArray())[0]), "keys");
  const other = openJoined();
  other.guest.end("picture");
  assert.equal(await other.ended, 0);
  assert.equal(String(other.stdout.read()), "picture");
  stdin.end();
  stdout.destroy();
  await assert.rejects(ended);
});

test("a client that leaves closes the stream, which is no failure", async () => {
  const { ours, leaving, ended } = openJoined();
  leaving.abort();
  assert.equal(await ended, 0);
  assert.equal(ours.destroyed, true);
});
