/** How far a hibernate, wake or start is. */
import type { ReactNode } from "react";
import type { MachineRow } from "../../../src/shared/rows.ts";
import { readProgress } from "../format.ts";
import { texts } from "../texts.ts";

const moving: ReadonlySet<string> = new Set(["hibernating", "waking", "creating"]);

interface ProgressProps {
  readonly machine: Pick<MachineRow, "state" | "message">;
  /** Said where the machine itself says nothing. */
  readonly other?: string;
}

export function Progress({ machine: { state, message }, other = "" }: ProgressProps): ReactNode {
  const isMoving = moving.has(state);
  if (!isMoving && message === "") return null;
  const text = message || other;
  const share = readProgress(text);
  return (
    <div className="progress" role="status">
      {isMoving ? (
        <progress
          aria-label={texts.machine.progress}
          max={1}
          {...(share === undefined ? {} : { value: share })}
        />
      ) : null}{" "}
      {text === "" ? state : text}
    </div>
  );
}
