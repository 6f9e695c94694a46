/** One operation of an RFC 6902 patch, as it is on the wire. */
export interface JsonPatchOperation {
  readonly op: "add" | "remove" | "replace" | "test" | "move" | "copy";
  readonly path: string;
  /** `move` and `copy` only. */
  readonly from?: string;
  /** `add`, `replace` and `test` only. */
  readonly value?: unknown;
}
