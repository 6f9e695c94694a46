/** supervise: the process that restarts parts of this machine's platform. Started by `up`, stopped by `down`. */
import { superviseComponents } from "@cocoon/controlplane";
import { abortOnSignals, createLogger, keepHeapSmall } from "@cocoon/core";
import type { CommandSpec } from "../command-spec.ts";
import { lockPath, type HomeOptions } from "../home.ts";
import { supervisorName } from "../parts/supervisor-part.ts";
import { requirePlatform } from "../platform.ts";

export const command: CommandSpec = {
  usage: "supervise",
  hidden: true,
  run: supervise,
};

async function supervise(options: HomeOptions): Promise<void> {
  keepHeapSmall({ giveBack: true });
  const signal = abortOnSignals();
  const { directory, components: all } = await requirePlatform(options);
  const components = all.filter(({ name }) => name !== supervisorName);
  const log = createLogger({ name: supervisorName, level: "info" });
  log.info({ parts: components.length }, "supervising");
  await superviseComponents({ directory, components, lock: lockPath(directory), log, signal });
  log.info("stopped");
}
