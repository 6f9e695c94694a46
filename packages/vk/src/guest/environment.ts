/**
 * Environment variables that a running machine is given, such as those of a claim that took it out of a warm pool. Login shells of
 * the guest read them; programs that are started through the kubelet get them as well.
 */
import { Fault, type Abortable } from "@cocoon/core";
import type { VmRuntime } from "@cocoon/vm";

const file = "/etc/profile.d/cocoon-env.sh";

export type Environment = Readonly<Record<string, string>>;

export async function writeEnvironment(
  runtime: VmRuntime,
  { vmId, env }: { readonly vmId: string; readonly env: Environment },
  options: Abortable,
): Promise<void> {
  await using program = await runtime.exec(vmId, { argv: ["tee", file], stdin: true }, options);
  program.stdout.resume();
  program.stderr.resume();
  program.stdin.end(formatEnvironment(env));
  const { code } = await program.exited;
  if (code !== 0) throw new Fault("unavailable", `the guest did not write ${file}: tee ended with ${code}`);
}

function formatEnvironment(env: Environment): string {
  const lines = Object.entries(env).map(
    ([name, value]) => `export ${name}='${value.replaceAll("'", "'\\''")}'`,
  );
  return `${lines.join("\n")}\n`;
}
