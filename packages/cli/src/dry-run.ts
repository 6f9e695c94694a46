/** What `up` would run, as a script that can be read and compared. Nothing is started, written or installed. */
import { cachedBinaries, defaultCacheRoot, dependencyGroups, type Component } from "@cocoon/controlplane";
import { planComponents, type PlatformRequest } from "./platform.ts";
import { shellCommand, shellWord } from "./shell-words.ts";

export async function dryRunScript(
  directory: string,
  settings: Pick<PlatformRequest, "apiserverPort" | "settings" | "bare" | "partSettings">,
): Promise<string> {
  const binaries = cachedBinaries(defaultCacheRoot(process.env));
  const components = await planComponents({ directory, binaries, ...settings });
  const steps = dependencyGroups(components).map((group, index) => {
    const commands = group.map(
      (component) =>
        `# ${component.name}: ${component.summary}\n${environmentText(component)}${shellCommand(component.command, component.args)} &\n`,
    );
    return `# Step ${index + 1}: ${group.map((component) => component.name).join(", ")}\n\n${commands.join("\n")}`;
  });
  return `# State directory: ${directory}\n\n${steps.join("\n")}`;
}

function environmentText({ env = {}, secrets = {} }: Component): string {
  const shown = Object.entries(env).map(([name, value]) => `${name}=${shellWord(value)}`);
  const hidden = Object.keys(secrets).map((name) => `${name}=...`);
  return [...shown, ...hidden].map((text) => `${text} \\\n`).join("");
}
