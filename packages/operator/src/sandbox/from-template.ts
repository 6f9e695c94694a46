/** Sandboxes that are made from a template: for a pool, or for a claim. Pure. */
import {
  sandboxAnnotation,
  sandboxHash,
  sandboxLabel,
  type SandboxSpec,
  type SandboxTemplate,
} from "@cocoon/contract/agent-sandbox";
import type { OwnerReference } from "@cocoon/kube";
import type { CustomObject } from "../kinds.ts";
import { sandboxes } from "./settle.ts";

type Texts = Readonly<Record<string, string>>;

export interface NewSandbox {
  readonly name: string;
  readonly owner: OwnerReference;
  readonly labels: Texts;
  readonly annotations?: Texts;
  readonly spec: SandboxSpec;
}

export function buildSandbox(template: SandboxTemplate, made: NewSandbox): CustomObject {
  const { name: templateName = "", namespace = "" } = template.metadata;
  return {
    apiVersion: `${sandboxes.group}/${sandboxes.version}`,
    kind: sandboxes.kind,
    metadata: {
      name: made.name,
      namespace,
      labels: {
        ...made.labels,
        [sandboxLabel.templateRefHash]: sandboxHash(templateName),
        [sandboxLabel.templateHash]: hashTemplate(template),
      },
      annotations: { ...made.annotations, [sandboxAnnotation.templateRef]: templateName },
      ownerReferences: [made.owner],
    },
    spec: made.spec,
  };
}

/** The blueprint, with the defaults that only Sandboxes of templates get. */
export function readBlueprint({ spec }: SandboxTemplate): SandboxSpec {
  const { podTemplate, volumeClaimTemplates, service } = spec;
  const pod = podTemplate.spec;
  const isStrict = spec.networkPolicyManagement === "Managed" && spec.networkPolicy === undefined;
  const dns =
    isStrict && pod["dnsPolicy"] === undefined
      ? { dnsPolicy: "None", dnsConfig: { nameservers: ["8.8.8.8", "1.1.1.1"] } }
      : {};
  return {
    podTemplate: { ...podTemplate, spec: { automountServiceAccountToken: false, ...dns, ...pod } },
    ...(volumeClaimTemplates === undefined ? {} : { volumeClaimTemplates }),
    ...(service === undefined ? {} : { service }),
    operatingMode: "Running",
    shutdownPolicy: "Retain",
  };
}

/** What a member of a pool is compared by. Metadata never counts: it follows the template. */
export function hashTemplate(template: SandboxTemplate): string {
  const { podTemplate, volumeClaimTemplates, service } = readBlueprint(template);
  const name = template.metadata.name ?? "";
  return sandboxHash(canonical([name, podTemplate.spec, volumeClaimTemplates ?? null, service ?? null]));
}

/** JSON whose members have one order. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, member: unknown) =>
    typeof member === "object" && member !== null && !Array.isArray(member)
      ? Object.fromEntries(Object.entries(member).toSorted(([one], [other]) => (one < other ? -1 : 1)))
      : member,
  );
}
