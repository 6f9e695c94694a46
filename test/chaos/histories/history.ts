import type { Platform } from "../platform.ts";

/** One finding as events that can be repeated. */
export interface NamedHistory {
  readonly name: string;
  /** Number of the finding. */
  readonly finding: string;
  readonly title: string;
  /** A VM without a pod is kept at its end, as promised; the next history gets another platform. */
  readonly keepsVm?: boolean;
  /** Throws when a promise is broken. */
  readonly run: (platform: Platform) => Promise<void>;
}
