/** Several things at once, but not too many, and no thing forgotten when one fails. */

/**
 * Runs `work` over the items with at most `width` at a time and yields the results in the order of the items. The
 * first failure stops new work and is thrown once the work under way has ended. Results wait until they are taken:
 * a slow consumer slows the workers down.
 */
export async function* mapOrdered<T, R>(
  items: Iterable<T>,
  width: number,
  work: (item: T) => Promise<R>,
): AsyncGenerator<R, void, undefined> {
  const running: Promise<R>[] = [];
  try {
    for (const item of items) {
      const promise = work(item);
      promise.catch(() => undefined); // reported when its turn comes
      running.push(promise);
      if (running.length < width) continue;
      const first = running.shift();
      if (first) yield await first;
    }
    for (let first = running.shift(); first; first = running.shift()) yield await first;
  } finally {
    await Promise.allSettled(running);
  }
}

/** Runs `work` over all items with at most `width` at a time; order does not matter. */
export async function forEachParallel<T>(
  items: Iterable<T>,
  width: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const iterator = items[Symbol.iterator]();
  let failed = false;
  const lane = async (): Promise<void> => {
    for (let next = iterator.next(); !next.done && !failed; next = iterator.next()) {
      try {
        await work(next.value);
      } catch (error) {
        failed = true;
        throw error;
      }
    }
  };
  const outcomes = await Promise.allSettled(Array.from({ length: width }, lane));
  for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
}
