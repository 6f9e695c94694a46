/**
 * Wakes a machine lazily, says its id, and stays until it is killed.
 *
 *   node lazy-worker.ts ROOT REGISTRY TOKEN DIGEST NAME
 */
import { writeSync } from "node:fs";
import { openLazyRuntime, wake } from "./lazy-harness.ts";

const [root = "", address = "", token = "", digest = "", name = ""] = process.argv.slice(2);
const runtime = await openLazyRuntime(root, { address, token });
writeSync(1, "open\n");
writeSync(1, `${await wake(runtime, { name, digest })}\n`);
setInterval(() => undefined, 60_000);
