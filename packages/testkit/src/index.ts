/** testkit: what tests share. Only test files import it. */
export { eventually, type EventuallyOptions } from "./eventually.ts";
export { temporaryDirectory, type TemporaryDirectory } from "./temporary-directory.ts";
export { count, seededRandom, testSeed, tier, type Tier } from "./tier.ts";
