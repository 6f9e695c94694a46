/** What `up` would run, as a script that can be read and compared. Nothing is started, written or installed. */
import {
  cachedBinaries,
  defaultCacheRoot,
  dependencyGroups,
  planControlPlane,
  type PrepareOptions,
} from "@cocoon/controlplane";
import { shellCommand } from "./shell-words.ts";

export async function dryRunScript(
  directory: string,
  settings: Pick<PrepareOptions, "apiserverPort" | "settings">,
): Promise<string> {
  const binaries = cachedBinaries(defaultCacheRoot(process.env));
  const { components } = await planControlPlane({ directory, binaries, ...settings });
  const steps = dependencyGroups(components).map((group, index) => {
    const commands = group.map(
      (component) =>
        `# ${component.name}: ${component.summary}\n${shellCommand(component.command, component.args)} &\n`,
    );
    return `# Step ${index + 1}: ${group.map((component) => component.name).join(", ")}\n\n${commands.join("\n")}`;
  });
  return `# State directory: ${directory}\n\n${steps.join("\n")}`;
}
