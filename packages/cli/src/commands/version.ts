/** version: ours, and those of the control plane that we bring. */
import { etcdVersion, kubernetesVersion } from "@cocoon/controlplane";
import { versionText } from "@cocoon/core";

export function version(): void {
  process.stdout.write(
    `${versionText("cocoonctl")}node ${process.version}\nkubernetes v${kubernetesVersion}\netcd v${etcdVersion}\n`,
  );
}
