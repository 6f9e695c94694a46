/** What the API server sends to an admission webhook: the fields of `AdmissionReview.request`, read and checked. */
import type { Logger } from "@cocoon/core";
import type { Verdict } from "./verdict.ts";

export type JsonObject = Readonly<Record<string, unknown>>;

export interface GroupVersionKind {
  readonly group: string;
  readonly version: string;
  readonly kind: string;
}

export interface GroupVersionResource {
  readonly group: string;
  readonly version: string;
  readonly resource: string;
}

export interface UserInfo {
  readonly username: string;
  readonly uid: string;
  readonly groups: readonly string[];
  readonly extra: Readonly<Record<string, readonly string[]>>;
}

type Operation = "CREATE" | "UPDATE" | "DELETE" | "CONNECT";

/** Text that the API server may leave out is empty here. `object` is absent on DELETE, `oldObject` on CREATE and CONNECT. */
export interface AdmissionRequest {
  readonly uid: string;
  readonly kind: GroupVersionKind;
  readonly resource: GroupVersionResource;
  readonly subResource: string;
  /** Empty while the server has yet to make one up from `generateName`. */
  readonly name: string;
  readonly namespace: string;
  /** Any other text is possible on the wire; a handler that does not know it should allow. */
  readonly operation: Operation | (string & {});
  readonly userInfo: UserInfo;
  readonly object: JsonObject | undefined;
  readonly oldObject: JsonObject | undefined;
  /** Nothing will be stored: a handler must leave no trace outside either. */
  readonly dryRun: boolean;
}

export interface AdmissionContext {
  /** Aborts when the time is over, when the API server hangs up and when the server is cut off at its end. */
  readonly signal: AbortSignal;
  readonly log: Logger;
  readonly budgetMs: number;
  /** Address of the caller; behind a load balancer that one's. */
  readonly client: string;
}

export type Decision = Verdict | undefined | void;

/** May answer at once or later. A throw is a failure of ours: the answer is 500 and failurePolicy decides. */
export type AdmissionHandler = (
  request: AdmissionRequest,
  context: AdmissionContext,
) => Decision | Promise<Decision>;

/** Wraps a handler when the server starts: rate limits, audit, feature gates. Costs nothing where there is none. */
export type Middleware = (next: AdmissionHandler, endpoint: { readonly name: string }) => AdmissionHandler;
