/** How a person reaches a machine. */
import type { ConnectionType } from "./vm-options.ts";

export interface ConnectionFacts {
  readonly os: string;
  readonly hasVncPort: boolean;
  /** What the spec says; it wins. */
  readonly override?: ConnectionType | "" | undefined;
}

export function connectionTypeOf({ os, hasVncPort, override }: ConnectionFacts): ConnectionType {
  if (override) return override;
  if (hasVncPort) return "vnc";
  if (os === "android") return "adb";
  return os === "windows" ? "rdp" : "ssh";
}
