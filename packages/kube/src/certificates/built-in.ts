/**
 * An authority of our own and a serving pair, shared by the replicas through a Secret, injected into the objects that the API
 * server reads, and renewed while everything runs. The targets are read before the store: a bundle is written only over one that
 * was there before, so a replica that was paused in between cannot put an old bundle over a new one.
 *
 * Rights needed: get, create and update on the Secret, get and patch on the targets; with a connection list and watch on both.
 */
import {
  clockSleep,
  Backoff,
  isFault,
  getErrorMessage,
  systemClock,
  toFault,
  withDeadline,
  type Abortable,
  type Clock,
  type Logger,
} from "@cocoon/core";
import type { KubeConnection } from "../client/client.ts";
import { Rotation, type RotationOptions } from "./rotation.ts";
import { defaultPolicy, type RotationPolicy } from "./rotation-plan.ts";
import { daysUntil, type ServingCertificates } from "./serving-certificates.ts";
import { Notices, watchObject, type WatchObjectOptions } from "./notices.ts";

export interface BuiltInOptions extends Omit<RotationOptions, "authorityName" | "policy" | "clock"> {
  readonly authorityName?: string;
  readonly policy?: Partial<RotationPolicy>;
  readonly clock?: Clock;
  /** Watches the store and the targets where they can be watched, so that a change is seen at once. */
  readonly connection?: KubeConnection;
  readonly syncMs?: number;
  readonly busySyncMs?: number;
}

export interface BuiltInCertificates extends ServingCertificates {
  /** Looks now, as when a watch reports a change of the Secret or a target. Rejects when the look failed. */
  sync(options: Abortable): Promise<void>;
  caBundle(): string;
}

const lookTimeoutMs = 30_000;
const leaveTimeoutMs = 3_000;

/** Resolves once there is a pair and this replica is on the list; tries until then unless trying cannot help. */
export async function startBuiltInCertificates(
  options: BuiltInOptions,
  { signal }: Abortable,
): Promise<BuiltInCertificates> {
  const { clock = systemClock, log } = options;
  const rotation = new Rotation({
    ...options,
    authorityName: options.authorityName ?? "serving certificate authority",
    policy: { ...defaultPolicy, ...options.policy },
    clock,
  });
  await firstLook(rotation, { clock, log, signal });
  const stopping = new AbortController();
  const notices = new Notices();
  const running = Promise.all([
    keepLooking(rotation, notices, { ...options, clock, signal: stopping.signal }),
    ...watchAll(options, { log, notify: notices.notify, signal: stopping.signal }),
  ]);
  return {
    current: () => rotation.holder.pair,
    onChange: (listener) => rotation.holder.onChange(listener),
    readiness: () => rotation.readiness(),
    daysToExpiry: () => daysUntil(rotation.holder.pair, clock.wallNow()),
    sync: (call) => rotation.sync(call),
    caBundle: () => rotation.bundle,
    [Symbol.asyncDispose]: async () => {
      if (stopping.signal.aborted) return;
      stopping.abort();
      await running;
      await rotation.leave({ signal: AbortSignal.timeout(leaveTimeoutMs) }).catch((error: unknown) => {
        log.debug(
          { error: getErrorMessage(error) },
          "replica not taken off the list; it will be forgotten in time",
        );
      });
    },
  };
}

interface Looking {
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
}

const failureBackoff = { baseMs: 500, maxMs: 30_000 };

async function firstLook(rotation: Rotation, { clock, log, signal }: Looking): Promise<void> {
  const backoff = new Backoff(failureBackoff);
  for (;;) {
    try {
      return await rotation.sync({ signal: withDeadline(signal, lookTimeoutMs) });
    } catch (error) {
      signal.throwIfAborted();
      if (!toFault(error).traits.retry) throw error;
      log.warn({ error: getErrorMessage(error) }, "serving certificates not loaded yet");
    }
    await clockSleep(clock, backoff.nextMs(), signal);
    signal.throwIfAborted();
  }
}

type Intervals = Looking & Pick<BuiltInOptions, "syncMs" | "busySyncMs">;

/** Changes come in bursts, our own among them. */
const noticeSpacingMs = 200;

async function keepLooking(rotation: Rotation, notices: Notices, options: Intervals): Promise<void> {
  const { clock, log, signal, syncMs = 60_000, busySyncMs = 5_000 } = options;
  const backoff = new Backoff(failureBackoff);
  let waitMs = rotation.busy ? busySyncMs : syncMs;
  while (await notices.wait(waitMs * (0.9 + 0.2 * Math.random()), { clock, signal })) {
    try {
      await rotation.sync({ signal: withDeadline(signal, lookTimeoutMs) });
      backoff.reset();
      waitMs = rotation.busy ? busySyncMs : syncMs;
    } catch (error) {
      waitMs = backoff.nextMs();
      if (!signal.aborted)
        log.warn({ error: getErrorMessage(error), code: readCode(error) }, "certificates not confirmed");
    }
    await clockSleep(clock, noticeSpacingMs, signal);
  }
}

function watchAll(
  { store, targets, connection }: BuiltInOptions,
  options: WatchObjectOptions,
): Promise<void>[] {
  if (!connection) return [];
  const objects = [store, ...targets].flatMap(({ object }) => (object ? [object] : []));
  return objects.map((object) =>
    watchObject(connection, object, options).catch((error: unknown) => {
      options.log.warn(
        { object: object.key.name, error: getErrorMessage(error) },
        "changes not watched, looking instead",
      );
    }),
  );
}

function readCode(error: unknown): string {
  return isFault(error) ? error.code : "internal";
}
