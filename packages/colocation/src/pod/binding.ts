/** `/validate-pod-binding`: who may put pods on nodes. */
import {
  allow,
  deny,
  type AdmissionHandler,
  type AdmissionRequest,
  type Verdict,
} from "@cocoon/kube/admission";
import type { Gates } from "../gates.ts";
import { handleResource, type RulePolicy } from "../handlers.ts";
import type { ClusterView } from "../view.ts";

export interface BindingSettings {
  readonly users: readonly string[];
  readonly dryRun: boolean;
  readonly namespaces: readonly string[];
  readonly excludedNamespaces: readonly string[];
  readonly bypassLabels: readonly string[];
  readonly bypassAnnotations: readonly string[];
}

export interface BindingOptions {
  readonly view: ClusterView;
  readonly gates: Gates;
  readonly settings: BindingSettings;
  readonly policy: RulePolicy;
  readonly decided?: (decision: string) => void;
}

const bindings = { resource: "pods", subResource: "binding", kind: "Binding" };

export function bindingValidator(options: BindingOptions): AdmissionHandler {
  const { gates, settings, policy, decided = () => undefined } = options;
  return handleResource(bindings, async (request): Promise<Verdict> => {
    if (!gates.BindingAdmissionWebhook || settings.users.length === 0) return allow();
    if (request.operation !== "CREATE") return allow();
    const decision = await decide(request, options);
    if (decision !== undefined) decided(decision);
    if (decision !== "denied") return allow();
    const message = "binding denied: username is not in the allowed list";
    const warned = policy.warns("pod-binding");
    policy.broken("pod-binding", warned ? "warned" : "refused");
    if (warned) return allow({ warnings: [`pod-binding (warn only): ${message}`] });
    return deny(message, { code: 403, reason: "Forbidden" });
  });
}

async function decide(
  { userInfo, namespace, name }: AdmissionRequest,
  { settings, view }: BindingOptions,
): Promise<string | undefined> {
  if (settings.users.some((part) => userInfo.username.includes(part))) return "allowed_username";
  if (settings.excludedNamespaces.includes(namespace)) return "excluded_ns";
  if (!settings.namespaces.includes("*")) {
    if (settings.namespaces.length === 0) return undefined;
    if (!settings.namespaces.includes(namespace)) return "out_of_scope";
  }
  const pod = await view.pod(namespace, name);
  if (!pod) return undefined;
  if (settings.bypassLabels.some((key) => Object.hasOwn(pod.labels, key))) return "bypass_label";
  if (settings.bypassAnnotations.some((key) => Object.hasOwn(pod.annotations, key)))
    return "bypass_annotation";
  return settings.dryRun ? "dry_run" : "denied";
}
