/** What a watch reports, and what may be chosen about it. */
import type { Backoff, Logger } from "@cocoon/core";
import type { ReadObject } from "./watch-frames.ts";

export type WatchEvent<T> =
  | { readonly kind: "relisting" }
  | { readonly kind: "synced"; readonly version: string }
  /** Between `relisting` and `synced`, `deleted` takes back what was listed. */
  | { readonly kind: "listed" | "applied" | "deleted"; readonly object: T }
  /** `gone`: the object that cannot be read was deleted. The key is `?` when not even that could be read. */
  | { readonly kind: "malformed"; readonly key: string; readonly cause: unknown; readonly gone: boolean };

export interface Selection {
  readonly namespace?: string | undefined;
  readonly labelSelector?: string | undefined;
  readonly fieldSelector?: string | undefined;
}

export interface WatchOptions<T> extends Selection {
  readonly signal: AbortSignal;
  readonly log?: Logger;
  /** Checks or reshapes each object; what it throws makes the object `malformed`. */
  readonly read?: ReadObject<T>;
  /** False leaves `metadata.managedFields` out of every object, which is cheaper than dropping them later. */
  readonly managedFields?: boolean;
  readonly tuning?: WatchTuning;
}

/** `stream` = the watch itself sends what exists (`sendInitialEvents`); pages where the server has no such thing. */
export type ListMethod = "stream" | "pages";

export interface WatchTuning {
  /** How the first list comes. Pages cost the server 2.4 times less than the same objects as events. */
  readonly firstList?: ListMethod;
  readonly pageSize?: number;
  /** A connection that was silent this long is cut. The server sends a bookmark about once a minute. */
  readonly idleTimeoutMs?: number;
  /** Without a connection for this long, or without running, a restart of the server may have been missed. */
  readonly unseenMs?: number;
  readonly maxObjectBytes?: number;
  readonly backoff?: Backoff;
}

export const watchDefaults = {
  firstList: "pages",
  pageSize: 500,
  idleTimeoutMs: 150_000,
  unseenMs: 3_000,
  maxObjectBytes: 64 * 1024 * 1024,
} as const;

/** The events that arrived together; none when there was only a bookmark. */
export interface WatchBatch<T> {
  readonly events: readonly WatchEvent<T>[];
  readonly version: string | undefined;
}
