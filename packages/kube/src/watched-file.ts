/** A small file whose content is read again when the file was replaced or rewritten. */
import { readFileSync, statSync } from "node:fs";
import { Fault, messageOf } from "@cocoon/core";

const largestBytes = 1024 * 1024;

export class WatchedFile {
  readonly path: string;
  readonly #field: string;
  #identity = "";
  #content: Buffer = Buffer.alloc(0);

  /** `field` is what names this file, for messages: `users[me].user.client-key`. */
  constructor(path: string, field: string) {
    this.path = path;
    this.#field = field;
  }

  /** The content as it is now; the very same Buffer as long as the file is the same. */
  read(): Buffer {
    try {
      // Kubernetes swaps a symbolic link when it updates a mounted Secret: stat follows it, so the inode changes.
      const { ino, size, mtimeMs } = statSync(this.path);
      const identity = `${ino} ${size} ${mtimeMs}`;
      if (identity === this.#identity) return this.#content;
      if (size > largestBytes) throw new Fault("tooLarge", `it has ${size} bytes, more than ${largestBytes}`);
      const content = readFileSync(this.path);
      if (!content.equals(this.#content)) this.#content = content;
      this.#identity = identity;
      return this.#content;
    } catch (error) {
      throw new Fault("invalid", `${this.#field}: ${this.path} cannot be read: ${messageOf(error)}`, {
        cause: error,
      });
    }
  }
}
