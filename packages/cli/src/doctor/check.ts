/** One thing that doctor looks at. */
import type { Environment } from "../home.ts";

export interface CheckContext {
  readonly directory: string;
  readonly env: Environment;
  readonly signal: AbortSignal;
}

export interface CheckResult {
  readonly state: "ok" | "warning" | "problem";
  readonly found: string;
  readonly fix?: string;
}

export interface Check {
  readonly name: string;
  readonly run: (context: CheckContext) => Promise<CheckResult>;
}

export function formatGigabytes(bytes: number): string {
  return `${(bytes / 1e9).toFixed(1)} GB`;
}

export function ok(found: string): CheckResult {
  return { state: "ok", found };
}

export function warning(found: string, fix: string): CheckResult {
  return { state: "warning", found, fix };
}

export function problem(found: string, fix: string): CheckResult {
  return { state: "problem", found, fix };
}
