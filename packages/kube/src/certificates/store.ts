/** Where replicas keep the certificates that they share. */
import type { Abortable } from "@cocoon/core";
import type { StoredContent } from "./rotation-state.ts";
import type { WatchedObject } from "./watch-object.ts";

export interface Stored extends StoredContent {
  /** Changes with every write. */
  readonly version: string;
}

/**
 * Writes are conditional: of two replicas that write at the same time, one gets a `conflict` or `alreadyExists` fault
 * and looks again. "Could not ask" is any other fault, never an absence.
 */
export interface CertificateStore {
  /** For people: `Secret ns/name`. */
  readonly description: string;
  /** Which object it is, where it can be watched. */
  readonly object?: WatchedObject;
  /** Undefined when it is certain that there is nothing. */
  read(options: Abortable): Promise<Stored | undefined>;
  create(content: StoredContent, options: Abortable): Promise<void>;
  /** Replaces what was read; other people's keys in it stay. */
  replace(read: Stored, content: StoredContent, options: Abortable): Promise<void>;
}
