/** Feature gates: Koordinator's with its defaults, and ours. A gate that nothing here looks at is accepted and named. */
import { Fault } from "@cocoon/core";
import { tryParseBool } from "@cocoon/core/go-bool";

const defaults = {
  WebhookFramework: true,
  PodMutatingWebhook: true,
  PodValidatingWebhook: true,
  ElasticMutatingWebhook: true,
  ElasticValidatingWebhook: true,
  NodeMutatingWebhook: false,
  NodeValidatingWebhook: false,
  ConfigMapValidatingWebhook: false,
  ReservationMutatingWebhook: false,
  ColocationProfileSkipMutatingResources: false,
  ColocationProfileSkipValidatingPriority: false,
  MultiQuotaTree: false,
  ElasticQuotaGuaranteeUsage: false,
  ElasticQuotaEnableUpdateResourceKey: false,
  DisableDefaultQuota: false,
  SupportParentQuotaSubmitPod: false,
  EnableQuotaAdmission: false,
  EnableQuotaAdmissionOnUpdate: false,
  ValidatePodDeviceResource: false,
  EnablePodEnhancedValidator: false,
  DisableExtendedResourceSpec: false,
  DisableDeviceResourceSpec: false,
  BindingAdmissionWebhook: false,
  // Ours: what the documentation promises and the code never did.
  ColocationProfileReapplyOnUpdate: false,
  ReservationFit: false,
  ElasticQuotaChildMaxWithinParent: false,
  SLOConfigStrict: false,
} as const;

export type GateName = keyof typeof defaults;
export type Gates = Readonly<Record<GateName, boolean>>;

export const defaultGates: Gates = defaults;

/** What our own installation turns on: the webhooks that the documentation describes as active. */
export const documentedGates: readonly GateName[] = [
  "NodeMutatingWebhook",
  "NodeValidatingWebhook",
  "ConfigMapValidatingWebhook",
  "ReservationMutatingWebhook",
  "EnableQuotaAdmission",
];

export interface GateReading {
  readonly gates: Gates;
  readonly unused: readonly string[];
}

/** `A=true,B=false`, as `--feature-gates` takes it. */
export function readGates(text: string): GateReading {
  const gates: Record<string, boolean> = { ...defaults };
  const unused: string[] = [];
  for (const part of text.split(",").map((each) => each.trim())) {
    if (part === "") continue;
    const at = part.indexOf("=");
    const value = at < 0 ? undefined : tryParseBool(part.slice(at + 1).trim());
    if (value === undefined)
      throw new Fault("invalid", `"${part}" is not of the form Name=true or Name=false`);
    const name = part.slice(0, at).trim();
    if (Object.hasOwn(defaults, name)) gates[name] = value;
    else unused.push(name);
  }
  return { gates: gates as Gates, unused };
}
