/** relay: joins listeners of this machine and of the platform's network namespaces. Started by `up`, stopped by `down`. */
import { abortOnSignals, createLogger, keepHeapSmall } from "@cocoon/core";
import type { CommandSpec } from "../command-spec.ts";
import { parseRoute } from "../network/relay-plan.ts";
import { runRelay } from "../network/relay.ts";
import { programArguments } from "../parts/part.ts";

export const command: CommandSpec = {
  usage: "relay",
  hidden: true,
  options: {
    "--inward <routes...>": "ports of this machine that lead into a namespace: NAMESPACE=ADDRESS:PORT",
    "--outward <routes...>": "addresses in a namespace that lead to this machine: NAMESPACE=ADDRESS:PORT",
  },
  run: relay,
};

interface RelayCommandOptions {
  readonly inward?: readonly string[];
  readonly outward?: readonly string[];
}

async function relay({ inward = [], outward = [] }: RelayCommandOptions): Promise<void> {
  keepHeapSmall({ giveBack: true });
  const plan = { inward: inward.map(parseRoute), outward: outward.map(parseRoute) };
  const worker = [process.execPath, ...programArguments("cli", "relay-worker")] as const;
  const log = createLogger({ name: "relay", level: "info" });
  await runRelay(plan, { worker: [...worker], log, signal: abortOnSignals() });
}
