/** The port to registries: what a reference stands for, and its blobs. Implemented outside, on the registry client. */
import type { Abortable } from "@cocoon/core";
import type { Readable } from "node:stream";

export interface SourceBlob {
  /** `sha256:…`; verified here again while reading. */
  readonly digest: string;
  readonly sizeBytes: number;
  readonly mediaType: string;
  /** `org.opencontainers.image.title`, where it has one. */
  readonly title?: string;
  open(options: Abortable): Promise<Readable>;
}

export type SourceImage =
  /** A container image for this platform; an index was already resolved. */
  | {
      readonly kind: "container";
      readonly digest: string;
      readonly config: unknown;
      /** Lowest first. */
      readonly layers: readonly SourceBlob[];
    }
  | {
      readonly kind: "cloudImage";
      readonly digest: string;
      readonly windows: boolean;
      readonly layers: readonly SourceBlob[];
    }
  /** Something that is there but cannot be run; `what` says so to people, for example "a snapshot: clone it". */
  | { readonly kind: "other"; readonly digest: string; readonly what: string };

export interface ImageSource {
  /** The full form of a reference: `alpine` -> `docker.io/library/alpine:latest`. `invalid` when it is none. */
  normalise(ref: string): string;
  /** What it stands for now. `notFound` only when the registry said so. */
  open(ref: string, options: Abortable): Promise<SourceImage>;
}
