/** kubectl: the one that matches the cluster, with its kubeconfig; takes our place. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { abortOnSignals } from "@cocoon/core";
import type { CommandSpec } from "../command-spec.ts";
import type { HomeOptions } from "../home.ts";
import { findKubectl, requirePlatform } from "../platform.ts";
import { Quit } from "../run-cli.ts";

export const command: CommandSpec = {
  usage: "kubectl [args...]",
  description: "the kubectl that matches the cluster, with its kubeconfig",
  configure: (declared) => declared.allowUnknownOption().helpOption(false),
  // The arguments as they were typed: the parser takes a "--" away, which kubectl exec needs. A first one is ours.
  run: (_parsed: string[], options: HomeOptions) => {
    const args = process.argv.slice(process.argv.indexOf("kubectl") + 1);
    return kubectl(args[0] === "--" ? args.slice(1) : args, options);
  },
};

async function kubectl(args: readonly string[], options: HomeOptions): Promise<void> {
  const { kubeconfig, context } = await requirePlatform(options);
  const program = await findKubectl(abortOnSignals());
  const child = spawn(program, [...(context ? ["--context", context] : []), ...args], {
    stdio: "inherit",
    env: { ...process.env, KUBECONFIG: kubeconfig },
  });
  const [code] = (await once(child, "close")) as [number | null];
  throw new Quit(code ?? 1);
}
