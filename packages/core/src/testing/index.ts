/** What tests of other packages use of core. */
export { FakeClock } from "./fake-clock.ts";
