/** One thing that doctor looks at. */
import type { Environment } from "../home.ts";

export interface CheckContext {
  readonly directory: string;
  readonly env: Environment;
  readonly signal: AbortSignal;
}

export interface CheckResult {
  readonly state: "ok" | "warning" | "problem";
  /** What was found, in a few words. */
  readonly found: string;
  readonly fix?: string;
}

export interface Check {
  readonly name: string;
  readonly run: (context: CheckContext) => Promise<CheckResult>;
}
