/** What the API server asks of an admission webhook: the fields of `AdmissionReview.request`, read and checked. */

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

export type Operation = "CREATE" | "UPDATE" | "DELETE" | "CONNECT";

/**
 * Text that the API server may leave out is empty here. `object` is absent on DELETE, `oldObject` on CREATE and
 * CONNECT; both are whatever the client sent until a reader has looked at them (see `reviewing`).
 */
export interface AdmissionRequest {
  readonly uid: string;
  readonly kind: GroupVersionKind;
  readonly resource: GroupVersionResource;
  readonly subResource: string;
  /** What the client addressed, when `matchPolicy: Equivalent` turned it into `kind` and `resource`. */
  readonly requestKind: GroupVersionKind | undefined;
  readonly requestResource: GroupVersionResource | undefined;
  readonly requestSubResource: string;
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
  /** CreateOptions, UpdateOptions, … of the client's call. */
  readonly options: JsonObject | undefined;
}
