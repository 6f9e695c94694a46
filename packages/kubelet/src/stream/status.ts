/** How a command ended, as the error stream carries it: a Kubernetes Status, or plain text in the oldest protocols. */
import { Fault, isFault, getErrorMessage } from "@cocoon/core";

export type CommandEnd =
  | { readonly kind: "exited"; readonly code: number }
  | { readonly kind: "failed"; readonly message: string };

/** What went wrong, in words for the user; our own internals stay in the log. */
export function buildEnd(error: unknown): CommandEnd {
  return { kind: "failed", message: isFault(error) ? error.message : getErrorMessage(error) };
}

/** Exit codes beyond 0..255 are a protocol error at the client; signals are 128 + n by convention. */
export function exited(code: number): CommandEnd {
  if (!Number.isInteger(code)) throw new Fault("internal", `exit code ${code} is not a whole number`);
  return { kind: "exited", code: code < 0 || code > 255 ? 255 : code };
}

export function statusJson(end: CommandEnd): string {
  if (end.kind === "failed") {
    return JSON.stringify({
      metadata: {},
      status: "Failure",
      message: end.message,
      reason: "InternalError",
      details: { causes: [{ message: end.message }] },
      code: 500,
    });
  }
  if (end.code === 0) return JSON.stringify({ metadata: {}, status: "Success" });
  return JSON.stringify({
    metadata: {},
    status: "Failure",
    message: `command terminated with non-zero exit code: ${end.code}`,
    reason: "NonZeroExitCode",
    details: { causes: [{ reason: "ExitCode", message: String(end.code) }] },
  });
}

/** Protocols before v4 know no exit codes: text on failure, nothing on success. */
export function statusText(end: CommandEnd): string {
  if (end.kind === "failed") return end.message;
  return end.code === 0 ? "" : `command terminated with non-zero exit code: ${end.code}`;
}
