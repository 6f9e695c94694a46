/** restart: one part stopped and started again with the settings it had. */
import { startComponents, stopComponents } from "@cocoon/controlplane";
import { abortOnSignals, Fault } from "@cocoon/core";
import type { CommandSpec } from "../command-spec.ts";
import { lockPlatform, type HomeOptions } from "../home.ts";
import { requirePlatform } from "../platform.ts";

export const command: CommandSpec = {
  usage: "restart <part>",
  description: "stop one part and start it again",
  examples: ["cocoonctl restart operator"],
  run: restart,
};

async function restart(part: string, options: HomeOptions): Promise<void> {
  const { directory, components } = await requirePlatform(options);
  const component = components.find((each) => each.name === part);
  if (!component)
    throw new Fault(
      "badRequest",
      `there is no part "${part}"; the parts are ${components.map(({ name }) => name).join(", ")}`,
    );
  const signal = abortOnSignals();
  await using _lock = await lockPlatform(directory, signal);
  const onProgress = (name: string, text: string) => process.stdout.write(`${name}: ${text}\n`);
  await stopComponents([component], { directory, onlyListed: true, onProgress });
  await startComponents([component], { directory, signal, onProgress });
}
