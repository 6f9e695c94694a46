/** Logs each variable that is set and has no meaning here, once, by its name; its value may be a secret. */
import type { Logger } from "@cocoon/core";
import type { VkConfig } from "./config.ts";
import { unusedOptions } from "./runtime-options.ts";

type Unused = keyof typeof unusedOptions;

export function warnIgnoredOptions(config: Partial<Pick<VkConfig, Unused>>, log: Pick<Logger, "info">): void {
  for (const name of Object.keys(unusedOptions) as Unused[])
    if (config[name] !== undefined)
      log.info({ variable: unusedOptions[name].env[0] }, "set, but not used here");
}
