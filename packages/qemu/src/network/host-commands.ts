/** Commands that change the host's network, in the host's own name space or in a named one. */
import { writeFile } from "node:fs/promises";
import type { Abortable } from "@cocoon/core";
import { runTool, type ToolName, type ToolOutput } from "@cocoon/vm/host";

export interface HostNetwork {
  /** Name of a network name space (`ip netns`); absent = the host's. */
  readonly netns?: string;
}

export class HostCommands {
  readonly netns: string | undefined;

  constructor({ netns }: HostNetwork) {
    this.netns = netns;
  }

  run(
    tool: ToolName,
    args: readonly string[],
    options: Abortable & { readonly acceptCodes?: readonly number[] },
  ): Promise<ToolOutput> {
    return this.netns === undefined
      ? runTool(tool, args, options)
      : runTool("ip", ["netns", "exec", this.netns, tool, ...args], options);
  }

  /** Whether the command succeeds; what it complains about is of no interest. */
  async succeeds(tool: ToolName, args: readonly string[], options: Abortable): Promise<boolean> {
    const { code } = await this.run(tool, args, { ...options, acceptCodes: [0, 1, 2, 255] });
    return code === 0;
  }

  async setSysctl(name: string, value: string, options: Abortable): Promise<void> {
    const path = `/proc/sys/${name.replaceAll(".", "/")}`;
    if (this.netns === undefined) await writeFile(path, value);
    else await runTool("ip", ["netns", "exec", this.netns, "sh", "-c", `echo ${value} > ${path}`], options);
  }
}
