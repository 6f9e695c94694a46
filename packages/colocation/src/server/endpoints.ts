/** Every endpoint with its handler, for the gates that are on. */
import type { Logger } from "@cocoon/core";
import type { AdmissionEndpoint, AdmissionHandler } from "@cocoon/kube/admission";
import { configMapValidator } from "../configmap/validate.ts";
import type { Gates } from "../gates.ts";
import type { RulePolicy } from "../handlers.ts";
import { nodeStatusMutator } from "../node/mutate-status.ts";
import { nodeValidator } from "../node/validate.ts";
import { bindingValidator, type BindingSettings } from "../pod/binding.ts";
import { EnhancedRules } from "../pod/enhanced-rules.ts";
import { podMutator } from "../pod/mutate.ts";
import { podValidator, type QuotaAdmission } from "../pod/validate.ts";
import { quotaMutator } from "../quota/mutate.ts";
import { ChangeAdmission, type ChangeStore } from "../quota/change-admission.ts";
import { quotaValidator } from "../quota/validate.ts";
import { reservationMutator } from "../reservation/mutate.ts";
import { ruleNames, type RuleName } from "../rules.ts";
import type { ClusterView } from "../view.ts";
import type { ColocationMetrics, HandlerStep } from "./metrics.ts";
import { activeDefinitions, endpointName, isLenient } from "./registration.ts";

export interface RuleSettings {
  readonly gates: Gates;
  /** Rules that only warn; `*` means all. */
  readonly warnRules: readonly string[];
  readonly configNamespace: string;
  readonly sloConfigName: string;
  readonly sloNamesNeeded: boolean;
  readonly maxAmplificationRatio: number | undefined;
  readonly enhanced: { readonly namespace: string; readonly name: string };
  readonly binding: BindingSettings;
}

export interface EndpointParts {
  readonly settings: RuleSettings;
  readonly view: ClusterView;
  readonly changeStore: ChangeStore;
  readonly admission: QuotaAdmission;
  readonly metrics: ColocationMetrics;
  readonly log: Logger;
  readonly random?: () => number;
}

export function colocationEndpoints(parts: EndpointParts): Record<string, AdmissionEndpoint> {
  const handlers = handlersByPath(parts);
  const active = activeDefinitions(parts.settings.gates);
  return Object.fromEntries(
    [...new Set(active.map(({ path }) => path))].map((path): [string, AdmissionEndpoint] => {
      const name = endpointName(path);
      const seconds = Math.min(
        ...active.filter((each) => each.path === path).map((each) => each.timeoutSeconds),
      );
      return [
        path,
        {
          name,
          handler: handlers(path),
          onExpiry: isLenient(name) ? "allow" : "deny",
          defaultTimeoutMs: seconds * 1000,
        },
      ];
    }),
  );
}

function createRulePolicy(warnRules: readonly string[], broken: RulePolicy["broken"]): RulePolicy {
  const warned = new Set<string>(warnRules.includes("*") ? ruleNames : warnRules);
  return { warns: (rule: RuleName) => warned.has(rule), broken };
}

const quotaStep = { objectType: "elasticquota", plugin: "QuotaMetaChecker" };

/** Endpoints that are one step in the metrics; those of pods count their steps themselves. */
const steps: Readonly<Record<string, Omit<HandlerStep, "webhookType">>> = {
  "/mutate-node-status": { objectType: "node", plugin: "NodeResourceAmplificationPlugin" },
  "/validate-node": { objectType: "node", plugin: "SLOManagerConfigConflictForNode" },
  "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota": quotaStep,
  "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota": quotaStep,
  "/mutate-reservation": { objectType: "reservation", plugin: "ClusterColocationProfile" },
  "/validate-configmap": { objectType: "configmap", plugin: "SLOConfig" },
};

function handlersByPath(parts: EndpointParts): (path: string) => AdmissionHandler {
  const { settings, view, metrics, log } = parts;
  const { gates, configNamespace: namespace, sloConfigName } = settings;
  const policy = createRulePolicy(settings.warnRules, metrics.broken);
  const random = parts.random ? { random: parts.random } : {};
  const { enhanced } = settings;
  const handlers: Readonly<Record<string, () => AdmissionHandler>> = {
    "/mutate-pod": () => podMutator({ view, gates, log, ...random, timed: metrics.timed("mutate", "pod") }),
    "/validate-pod": () =>
      podValidator({
        view,
        gates,
        policy,
        admission: parts.admission,
        enhanced: new EnhancedRules(() => view.configMap(enhanced.namespace, enhanced.name), log),
        timed: metrics.timed("validate", "pod"),
      }),
    "/validate-pod-binding": () =>
      bindingValidator({ view, gates, settings: settings.binding, policy, decided: metrics.decided }),
    "/mutate-node-status": () => nodeStatusMutator(),
    "/validate-node": () =>
      nodeValidator({
        view,
        policy,
        namespace,
        sloConfigName,
        maxRatio: settings.maxAmplificationRatio,
        log,
      }),
    "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota": () =>
      quotaMutator({ view, weighed: metrics.weighed }),
    "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota": () =>
      quotaValidator(new ChangeAdmission({ store: parts.changeStore, policy, gates, view })),
    "/mutate-reservation": () => reservationMutator({ view, log, ...random }),
    "/validate-configmap": () =>
      configMapValidator({
        view,
        gates,
        policy,
        namespace,
        name: sloConfigName,
        namesNeeded: settings.sloNamesNeeded,
      }),
  };
  return (path) => {
    const make = handlers[path];
    if (!make) throw new Error(`no handler for ${path}`);
    const step = steps[path];
    const webhookType = path.startsWith("/mutate-") ? "mutate" : "validate";
    return step ? metrics.timedHandler({ webhookType, ...step }, make()) : make();
  };
}
