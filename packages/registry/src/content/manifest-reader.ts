/**
 * Parses manifests without stopping the server: a large one is parsed by another thread, and no manifest may be nested
 * deeper or hold more values than any real one does.
 */
import { AnsweringThread, type Numbered } from "@cocoon/core";
import { ociFault } from "../oci-fault.ts";
import { readManifest, type Manifest } from "./manifest.ts";

/** Up to this size parsing takes about a millisecond. */
const inlineBytes = 64 * 1024;

export interface ReadOrder extends Numbered {
  readonly bytes: Uint8Array;
  readonly pushedType: string | undefined;
}

export interface ReadAnswer extends Numbered {
  readonly manifest: Manifest | undefined;
  readonly problem: string | undefined;
}

export class ManifestReader implements AsyncDisposable {
  #thread: AnsweringThread<ReadOrder, ReadAnswer> | undefined;

  /** The type it was pushed with, if any, wins over the field in its body. Throws MANIFEST_INVALID. */
  async read(bytes: Uint8Array, pushedType?: string): Promise<Manifest> {
    if (bytes.length <= inlineBytes) return readManifest(bytes, pushedType);
    const copy = new Uint8Array(bytes);
    const { manifest, problem } = await this.#ensureThread().ask({ bytes: copy, pushedType }, [copy.buffer]);
    if (manifest) return manifest;
    throw ociFault("MANIFEST_INVALID", problem ?? "the manifest cannot be read");
  }

  #ensureThread(): AnsweringThread<ReadOrder, ReadAnswer> {
    if (this.#thread && !this.#thread.isGone) return this.#thread;
    const program = new URL("./manifest-thread.ts", import.meta.url);
    this.#thread = new AnsweringThread(program, { name: "manifests", onLost: () => undefined });
    return this.#thread;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#thread?.end();
  }
}
