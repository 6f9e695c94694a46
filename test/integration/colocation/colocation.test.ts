/** One control plane for all: their webhooks are for the whole cluster, so the suites take turns. */
import { after } from "node:test";
import { sharedCluster } from "./cluster.ts";
import { chaining } from "./chaining-suite.ts";
import { installation } from "./installation-suite.ts";
import { quotaConcurrency } from "./quota-suite.ts";
import { starting } from "./start-suite.ts";
import { webhooks } from "./webhooks-suite.ts";

after(async () => {
  const cluster = await sharedCluster();
  await cluster[Symbol.asyncDispose]();
});

webhooks();
quotaConcurrency();
chaining();
starting();
installation();
