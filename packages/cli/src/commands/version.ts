/** version: ours, and those of the control plane that we bring. */
import { etcdVersion, kubernetesVersion } from "@cocoon/controlplane/programs";
import { versionText } from "@cocoon/core/version";
import { commandName } from "../invocation.ts";
import type { CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "version",
  description: "version, revision and build time, and those of the control plane",
  run: version,
};

export function version(): void {
  process.stdout.write(
    `${versionText(commandName())}node ${process.version}\nkubernetes v${kubernetesVersion}\netcd v${etcdVersion}\n`,
  );
}
