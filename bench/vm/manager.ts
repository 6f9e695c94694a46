/**
 * A manager as the kubelet has it: a runtime that watches all VMs. Measured from outside, so that the benchmark's own
 * memory is not counted.
 *
 *   node manager.ts ROOT            watches; `node manager.ts` alone is an empty process with the same modules loaded
 */
import { openRuntime, signal } from "./measure.ts";

const [root] = process.argv.slice(2);
if (root !== undefined) {
  const runtime = await openRuntime(root);
  for await (const event of runtime.watch({ signal }))
    if (event.kind === "synced") process.stdout.write("watching\n");
} else {
  process.stdout.write("watching\n");
  setInterval(() => undefined, 60_000);
}
