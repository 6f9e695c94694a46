/**
 * Who asked for what, and what came of it: one line per review. Of a patch only the operations and paths are written,
 * of objects nothing: values may be secrets.
 */
import type { Logger } from "@cocoon/core";
import type { ReviewEvent } from "@cocoon/kube/admission";

export type AuditLevel = "none" | "changes" | "all";

const maxPaths = 40;
const maxTextLength = 500;

/** `changes`: only what was refused, changed or could not be decided. */
export function auditor(log: Logger, level: AuditLevel): (event: ReviewEvent) => void {
  return (event) => {
    const { request, verdict, result } = event;
    if (level === "none" || !request || request.resource.resource === "") return;
    if (level === "changes" && result === "allow") return;
    log.info(
      {
        audit: true,
        endpoint: event.handler,
        uid: request.uid,
        user: short(request.userInfo.username),
        operation: short(request.operation),
        resource: short(
          [request.resource.group, request.resource.resource, request.subResource].filter(Boolean).join("/"),
        ),
        namespace: short(request.namespace),
        name: short(request.name),
        dryRun: request.dryRun,
        verdict: result,
        ...(verdict?.kind === "deny" ? { code: verdict.code, message: short(verdict.message) } : {}),
        ...(verdict?.kind === "allow" && verdict.patch ? { patch: patchSummary(verdict.patch) } : {}),
        ...(verdict?.warnings && verdict.warnings.length > 0 ? { warnings: verdict.warnings.length } : {}),
        tookMs: Math.round(event.seconds * 1000),
      },
      "admission",
    );
  };
}

function patchSummary(patch: readonly { readonly op: string; readonly path: string }[]): string[] {
  return patch.slice(0, maxPaths).map(({ op, path }) => short(`${op} ${path}`));
}

function short(text: string): string {
  return text.length > maxTextLength ? `${text.slice(0, maxTextLength)}…` : text;
}
