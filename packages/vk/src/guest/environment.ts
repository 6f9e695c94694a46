/**
 * Environment variables that a running machine is given, such as those of a claim that took it out of a warm pool. Login shells of
 * the guest read them; programs that are started through the kubelet get them as well.
 */
import { Fault, type Abortable } from "@cocoon/core";
import type { VmRuntime } from "@cocoon/vm";

const directory = "/etc/profile.d";
const file = `${directory}/cocoon-env.sh`;

type Environment = Readonly<Record<string, string>>;

interface Given {
  readonly vmId: string;
  readonly env: Environment;
}

export async function writeEnvironment(
  runtime: VmRuntime,
  { vmId, env }: Given,
  options: Abortable,
): Promise<void> {
  const write = () => run(runtime, { vmId, argv: ["tee", file], input: formatEnvironment(env) }, options);
  if ((await write()) === 0) return;
  // Small images have no such directory.
  await run(runtime, { vmId, argv: ["mkdir", "-p", directory], input: "" }, options);
  const code = await write();
  if (code !== 0) throw new Fault("unavailable", `the guest did not write ${file}: tee ended with ${code}`);
}

async function run(
  runtime: VmRuntime,
  { vmId, argv, input }: { readonly vmId: string; readonly argv: readonly string[]; readonly input: string },
  options: Abortable,
): Promise<number | undefined> {
  await using program = await runtime.exec(vmId, { argv, stdin: true }, options);
  program.stdout.resume();
  program.stderr.resume();
  program.stdin.end(input);
  return (await program.exited).code;
}

function formatEnvironment(env: Environment): string {
  const lines = Object.entries(env).map(
    ([name, value]) => `export ${name}='${value.replaceAll("'", "'\\''")}'`,
  );
  return `${lines.join("\n")}\n`;
}
