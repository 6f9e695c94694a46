/** A registry in a process of its own, controlled by messages. */
import { getErrorMessage } from "@cocoon/core";
import { startRegistry, type RegistryOptions } from "@cocoon/registry";
import type { ReplicaAnswer, ReplicaOrder } from "./replica.ts";

const registry = await startRegistry(JSON.parse(process.argv[2] ?? "{}") as RegistryOptions);

async function execute(order: ReplicaOrder["order"]): Promise<unknown> {
  if (order === "token") return registry.createToken({ name: "shared" });
  const signal = AbortSignal.timeout(60_000);
  return registry.collectGarbage({ signal, untaggedMs: 0 });
}

process.on("message", ({ number, order }: ReplicaOrder) => {
  const answer = (rest: Omit<ReplicaAnswer, "number">) => process.send?.({ number, ...rest });
  execute(order).then(
    (result) => answer({ result }),
    (error: unknown) => answer({ problem: getErrorMessage(error) }),
  );
});
process.on("disconnect", () => process.exit(0));
process.send?.({ number: 0, result: registry.url });
