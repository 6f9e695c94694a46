/** One run of a piece of work per key, shared by every caller that comes while it runs. */
import { orAborted, type Abortable } from "@cocoon/core";

interface Flight<T> {
  readonly result: Promise<T>;
  readonly stop: AbortController;
  callers: number;
}

export class SingleFlight<T> {
  readonly #flights = new Map<string, Flight<T>>();

  /** The work is aborted when its last caller is; a caller that is aborted leaves it to the others. */
  async run(key: string, { signal }: Abortable, work: (options: Abortable) => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    const flight = this.#flights.get(key) ?? this.#start(key, work);
    flight.callers += 1;
    try {
      return await orAborted(flight.result, { signal });
    } finally {
      flight.callers -= 1;
      if (flight.callers === 0) this.#end(key, flight);
    }
  }

  #end(key: string, flight: Flight<T>): void {
    if (this.#flights.get(key) === flight) this.#flights.delete(key);
    flight.stop.abort();
  }

  #start(key: string, work: (options: Abortable) => Promise<T>): Flight<T> {
    const stop = new AbortController();
    const result = work({ signal: stop.signal }).finally(() => {
      if (this.#flights.get(key) === flight) this.#flights.delete(key);
    });
    result.catch(() => undefined); // every caller may have left
    const flight: Flight<T> = { result, stop, callers: 0 };
    this.#flights.set(key, flight);
    return flight;
  }
}
