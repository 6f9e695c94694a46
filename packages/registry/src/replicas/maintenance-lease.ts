/** One replica at a time collects garbage or checks content: a lease in the storage that its holder renews. */
import { randomBytes } from "node:crypto";
import { hostname } from "node:os";
import * as z from "zod";
import { Fault, getErrorMessage, sleep, type Logger } from "@cocoon/core";
import { layout } from "../storage/layout.ts";
import type { Storage } from "../storage/storage.ts";

interface LeaseOptions {
  readonly storage: Storage;
  readonly log: Logger;
  readonly durationMs: number;
}

interface HeldLease extends AsyncDisposable {
  /** Aborts when the lease was lost: another replica may have it. */
  readonly signal: AbortSignal;
}

const wire = z.object({ holder: z.string() });

export class MaintenanceLease {
  readonly #storage: Storage;
  readonly #log: Logger;
  readonly #durationMs: number;
  readonly #holder = `${hostname()}-${process.pid}-${randomBytes(4).toString("hex")}`;

  constructor({ storage, log, durationMs }: LeaseOptions) {
    this.#storage = storage;
    this.#log = log;
    this.#durationMs = durationMs;
  }

  /** Throws `conflict` when another replica holds it. A storage of one process needs no lease. */
  async acquire(): Promise<HeldLease> {
    if (!this.#storage.isShared)
      return { signal: new AbortController().signal, [Symbol.asyncDispose]: () => Promise.resolve() };
    const version = await this.#take();
    return this.#hold(version);
  }

  async #take(): Promise<string> {
    const current = await this.#storage.getVersioned(layout.maintenanceLease);
    const holder = current && readHolder(current.content);
    if (current && holder !== "") {
      const ageMs = (await this.#storage.now()) - current.modifiedAtMs;
      if (ageMs < this.#durationMs)
        throw new Fault("conflict", `another replica (${holder}) collects garbage or checks content`);
    }
    const version = await this.#write(this.#holder, current?.version);
    if (version === undefined)
      throw new Fault("conflict", "another replica has just begun to collect garbage or check content");
    return version;
  }

  #write(holder: string, version: string | undefined): Promise<string | undefined> {
    // The number makes every write a new version, also by the same holder.
    const content = JSON.stringify({ holder, number: randomBytes(8).toString("hex") });
    return this.#storage.putIf(layout.maintenanceLease, Buffer.from(content), version);
  }

  #hold(first: string): HeldLease {
    const [lost, released] = [new AbortController(), new AbortController()];
    let version: string | undefined = first;
    let renewedMs = performance.now();
    const renew = async () => {
      while (await sleep(this.#durationMs / 3, { signal: released.signal })) {
        try {
          version = await this.#write(this.#holder, version);
          if (version === undefined) break;
          renewedMs = performance.now();
        } catch (error) {
          this.#log.warn({ error: getErrorMessage(error) }, "maintenance lease could not be renewed");
          if (performance.now() - renewedMs > (this.#durationMs * 2) / 3) break;
        }
      }
      if (!released.signal.aborted)
        lost.abort(new Fault("conflict", "the maintenance lease was lost to another replica"));
    };
    const renewing = renew();
    return {
      signal: lost.signal,
      [Symbol.asyncDispose]: async () => {
        released.abort();
        await renewing;
        if (version !== undefined && !lost.signal.aborted) await this.#write("", version);
      },
    };
  }
}

function readHolder(content: Buffer): string {
  try {
    return wire.parse(JSON.parse(content.toString("utf8"))).holder;
  } catch {
    return "unknown"; // free once it is old
  }
}
