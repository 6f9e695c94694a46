/** Measures how long a killed part is away: from SIGKILL until its own readiness endpoint answers again. */
import { sleep } from "@cocoon/core";
import type { PartProbes } from "./part-probes.ts";
import type { PartName } from "./parts.ts";

export interface Recovery {
  readonly part: PartName;
  readonly ms: number;
  /** Another fault was active between the kill and the recovery. */
  readonly disturbed: boolean;
}

interface Open {
  readonly since: number;
  readonly ended: AbortController;
  disturbed: boolean;
}

const intervalMs = 100;
const limitMs = 300_000;

export class RecoveryClock {
  readonly #probes: Pick<PartProbes, "probe">;
  readonly #open = new Map<PartName, Open>();
  #activeFaults = 0;
  #found: Recovery[] = [];

  constructor(probes: Pick<PartProbes, "probe">) {
    this.#probes = probes;
  }

  /** A fault begins; disposing ends it. */
  beginFault(): Disposable {
    this.#activeFaults += 1;
    for (const open of this.#open.values()) open.disturbed = true;
    return { [Symbol.dispose]: () => void (this.#activeFaults -= 1) };
  }

  /** The part was killed just now. A second kill before it recovered starts its time again. */
  partKilled(part: PartName): void {
    this.#open.get(part)?.ended.abort();
    const open = {
      since: performance.now(),
      ended: new AbortController(),
      disturbed: this.#activeFaults > 1,
    };
    this.#open.set(part, open);
    void this.#measure(part, open);
  }

  /** What recovered since the last call. */
  take(): Recovery[] {
    const taken = this.#found;
    this.#found = [];
    return taken;
  }

  async #measure(part: PartName, open: Open): Promise<void> {
    const { signal } = open.ended;
    while (!signal.aborted && performance.now() - open.since < limitMs) {
      await sleep(intervalMs, { signal });
      const ready = await this.#probes.probe(part).then(
        () => true,
        () => false,
      );
      if (!ready || signal.aborted) continue;
      this.#open.delete(part);
      this.#found.push({ part, ms: performance.now() - open.since, disturbed: open.disturbed });
      return;
    }
  }
}
