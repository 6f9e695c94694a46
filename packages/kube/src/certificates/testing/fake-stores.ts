/** A store and targets in memory that behave as the API server's objects do. */
import { Fault } from "@cocoon/core";
import type { BundleReading, BundleTarget } from "../bundle-target.ts";
import type { StoredContent } from "../rotation-state.ts";
import type { CertificateStore, Stored } from "../secret-store.ts";

/** Called before every operation, to delay or fail it. */
export type Gate = (what: string) => Promise<void>;

const open: Gate = () => Promise.resolve();

export class FakeStore {
  content: Stored | undefined;
  writes = 0;

  view(gate: Gate = open): CertificateStore {
    return {
      description: "memory store",
      read: async () => {
        await gate("read store");
        return this.content;
      },
      create: async (content) => {
        await gate("create store");
        if (this.content) throw new Fault("alreadyExists", "already there");
        this.#put(content);
      },
      replace: async (read, content) => {
        await gate("replace store");
        if (!this.content) throw new Fault("notFound", "not there");
        if (this.content.version !== read.version) throw new Fault("conflict", "changed meanwhile");
        this.#put(content);
      },
    };
  }

  #put(content: StoredContent): void {
    this.writes += 1;
    this.content = { ...content, version: String(this.writes) };
  }
}

export class FakeTarget {
  bundle = "";
  writes = 0;
  readonly #onWrite: (bundle: string) => void;

  constructor(onWrite: (bundle: string) => void = () => undefined) {
    this.#onWrite = onWrite;
  }

  view(gate: Gate = open): BundleTarget {
    return {
      description: "memory target",
      read: async (): Promise<BundleReading> => {
        await gate("read target");
        const seen = this.bundle;
        return { bundles: [seen], inject: (bundle) => this.#inject(seen, bundle, gate) };
      },
    };
  }

  // oxlint-disable-next-line max-params -- what was seen, what is wanted, and the test's hook
  async #inject(seen: string, bundle: string, gate: Gate): Promise<readonly string[]> {
    if (seen === bundle) return [seen];
    await gate("write target");
    if (this.bundle !== seen) throw new Fault("invalid", "test failed");
    this.bundle = bundle;
    this.writes += 1;
    this.#onWrite(bundle);
    return [bundle];
  }
}
