/** restart: one part stopped and started again with the settings it had. */
import { startComponents, stopComponents } from "@cocoon/controlplane";
import { abortOnSignals, Fault } from "@cocoon/core";
import { homeDirectory, type HomeOptions } from "../home.ts";
import { knownPlatform } from "../platform.ts";

export async function restart(part: string, options: HomeOptions): Promise<void> {
  const directory = homeDirectory(options, process.env);
  const platform = await knownPlatform(directory, process.env);
  const component = platform?.components.find((each) => each.name === part);
  if (!platform || !component) {
    const names =
      platform?.components.map((each) => each.name).join(", ") ?? "none: nothing was brought up yet";
    throw new Fault("badRequest", `there is no part "${part}"; the parts are ${names}`);
  }
  const onProgress = (name: string, text: string) => process.stdout.write(`${name}: ${text}\n`);
  await stopComponents([component], { directory, onlyListed: true, onProgress });
  await startComponents([component], { directory, signal: abortOnSignals(), onProgress });
}
