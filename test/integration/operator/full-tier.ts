/** For tests that take long and say little new after each change: `npm run test:full` has them. */
import { tier } from "@cocoon/testkit";

export const inFullTier = { skip: tier() === "full" ? false : "runs in the full tier" } as const;
