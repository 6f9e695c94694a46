/** One call of the provider, with its outcome as an event and, when a create failed, in the pod's status. */
import { getErrorMessage, isFault, type Logger } from "@cocoon/core";
import { getKey, keyText, pods } from "@cocoon/kube";
import { referenceTo, type EventRecorder } from "@cocoon/kube/controller";
import type { Pod } from "../provider.ts";
import { failedAttemptStatus } from "./pod-status.ts";
import type { StatusWriter } from "./status-writer.ts";

export type ProviderCall = "Create" | "Update" | "Delete" | "Disappeared";

const successMessages: Readonly<Record<ProviderCall, string>> = {
  Create: "Create pod in provider successfully",
  Update: "Update pod in provider successfully",
  Delete: "Delete pod in provider successfully",
  Disappeared: "Pod disappeared without a deletion; the provider was informed",
};

interface CallContext {
  readonly what: ProviderCall;
  readonly pod: Pod;
  readonly events: EventRecorder;
  readonly log: Logger;
  readonly status: StatusWriter;
}

export async function callProvider(
  { what, pod, events, log, status }: CallContext,
  call: () => Promise<void>,
): Promise<void> {
  const subject = referenceTo(pods, pod);
  try {
    await call();
    const message = successMessages[what];
    events.record(subject, { type: "Normal", reason: `Provider${what}Success`, message });
  } catch (error) {
    if (isFault(error, "notFound") && what === "Delete") return;
    const message = getErrorMessage(error);
    log.warn({ pod: keyText(getKey(pod)), what, error: message }, "provider call failed");
    events.record(subject, { type: "Warning", reason: `Provider${what}Failed`, message });
    if (what === "Create") {
      const report = { status: failedAttemptStatus(pod, "ProviderFailed", message) };
      await status.write(pod, report, AbortSignal.timeout(10_000));
    }
    throw error;
  }
}
