/** Loaded before every test file: property tests take the seed of the run, so that the small tier is the same each time. */
import { seedOfRun } from "@cocoon/testkit";
import fc from "fast-check";

fc.configureGlobal({ ...fc.readConfigureGlobal(), seed: seedOfRun() });
