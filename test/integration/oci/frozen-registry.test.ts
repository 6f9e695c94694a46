/** Transfers that were under way when the registry's process was frozen (SIGSTOP) continue once it does. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { test } from "node:test";
import { sleep } from "@cocoon/core";
import { computeDigest, fixedCredential, openRegistry, type Repository } from "@cocoon/oci";
import { temporaryDirectory } from "@cocoon/testkit";
import { startChildRegistry, type ChildRegistry } from "../registry/child.ts";

const signal = AbortSignal.timeout(120_000);
const timeoutMs = 400;
const frozenMs = 1_500;
const recoverMs = 20_000;
const content = randomBytes(24 * 1024 * 1024);
const digest = computeDigest(content);

interface World extends AsyncDisposable {
  readonly repository: Repository;
  /** Freezes the registry, and lets it continue later. */
  freeze(): void;
  /** When it continued. */
  readonly thawed: Promise<number>;
}

async function openWorld(): Promise<World> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const options = { root: join(path, "registry"), logFile: join(path, "epoch.log") };
  const child: ChildRegistry = stack.use(await startChildRegistry(options));
  const { pid } = child.program.identity;
  const credentials = fixedCredential({ kind: "bearer", token: child.client.token ?? "" });
  const limits = { answerTimeoutMs: timeoutMs, idleTimeoutMs: timeoutMs, retry: { attempts: 8, maxMs: 500 } };
  const registry = stack.use(openRegistry({ address: child.url, credentials, ...limits }));
  const thawed = Promise.withResolvers<number>();
  const opened = stack.move();
  return {
    repository: registry.repository("vm"),
    freeze: () => {
      process.kill(pid, "SIGSTOP");
      void sleep(frozenMs, { signal }).then(() => {
        process.kill(pid, "SIGCONT");
        thawed.resolve(performance.now());
      });
    },
    thawed: thawed.promise,
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

async function* slowly(onFirst: () => void, offset: number): AsyncGenerator<Uint8Array> {
  for (let at = offset; at < content.length; at += 1 << 20) {
    yield content.subarray(at, at + (1 << 20));
    if (at === offset) onFirst();
  }
}

test("a download continues where it stopped", async () => {
  await using world = await openWorld();
  const { repository } = world;
  const open = (offset: number) => slowly(() => undefined, offset);
  await repository.putBlob({ digest, size: content.length, open }, { signal });
  let received = 0;
  for await (const piece of repository.openBlob({ digest, size: content.length }, { signal })) {
    if (received === 0) world.freeze();
    received += piece.length;
  }
  assert.equal(received, content.length);
  const lateMs = performance.now() - (await world.thawed);
  assert.ok(lateMs < recoverMs, `${Math.round(lateMs)} ms after the registry continued`);
});

test("an upload arrives whole", async () => {
  await using world = await openWorld();
  const { repository } = world;
  let frozen = false;
  const open = (offset: number) =>
    slowly(() => {
      if (!frozen) world.freeze();
      frozen = true;
    }, offset);
  await repository.putBlob({ digest, size: content.length, open }, { signal });
  const lateMs = performance.now() - (await world.thawed);
  assert.ok(lateMs < recoverMs, `${Math.round(lateMs)} ms after the registry continued`);
  const stored = await repository.readBlob({ digest, size: content.length }, { signal });
  assert.equal(computeDigest(stored), digest);
});
