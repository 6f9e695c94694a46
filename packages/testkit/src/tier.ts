/**
 * Two test tiers with the same code: `npm test` takes the small counts, `npm run test:full` the full ones.
 * A random test takes its seed from here: always the same in the small tier, so that a change is what makes it fail; a
 * new one in every full run, so that new ground is covered. COCOON_TEST_SEED repeats a failure.
 */
import { randomInt } from "node:crypto";

export type Tier = "small" | "full";

export function tier(): Tier {
  return process.env["COCOON_TEST_TIER"] === "full" ? "full" : "small";
}

/** The number of rounds for this tier. */
export function count(rounds: Readonly<Record<Tier, number>>): number {
  return rounds[tier()];
}

/**
 * Options of a test or suite that only the full tier runs, with the reason; the small tier reports it as skipped. What
 * is checked there has a smaller representative in the small tier, or takes minutes.
 */
export function fullTierOnly(why: string): { readonly skip: string | false } {
  return { skip: tier() === "small" && `full tier only: ${why}` };
}

const quickSeed = 1;
let chosen: number | undefined;
let isTold = false;

/** For those who tell it themselves when they fail. */
export function seedOfRun(): number {
  const given = process.env["COCOON_TEST_SEED"];
  return (chosen ??= given ? Number(given) : tier() === "full" ? randomInt(2 ** 31) : quickSeed);
}

/** The seed of this run, printed once per process. */
export function testSeed(): number {
  const seed = seedOfRun();
  if (!isTold) console.log(`# seed ${seed} (repeat with COCOON_TEST_SEED=${seed})`);
  isTold = true;
  return seed;
}

/** Small, fast, repeatable random numbers in [0, 1): mulberry32. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
