/** Restarts the other parts when they end without being stopped. Started last, stopped first. */
import { isSupervised, type Component } from "@cocoon/controlplane";
import { Fault } from "@cocoon/core";
import { programArguments, programEnvironment } from "./part.ts";

export const supervisorName = "supervisor";

export interface SupervisorRequest {
  /** The platform's. */
  readonly directory: string;
  /** Holds the compiled code of the programs. */
  readonly compiled: string;
  readonly supervised: readonly Component[];
}

export function supervisorPart({ directory, compiled, supervised }: SupervisorRequest): Component {
  return {
    name: supervisorName,
    summary: "restarts parts that end unexpectedly",
    needs: supervised.map(({ name }) => name),
    command: process.execPath,
    args: programArguments("cli", "supervise"),
    env: { ...programEnvironment({ directory: compiled }), COCOON_HOME: directory },
    probe: async () => {
      if (!(await isSupervised(directory))) throw new Fault("unavailable", "it has not started supervising");
    },
    readyTimeoutMs: 30_000,
  };
}
