/** A SandboxTemplate: its label, and the NetworkPolicy for the pods that are made from it. */
import {
  readSandboxTemplate,
  sandboxHash,
  sandboxLabel,
  type SandboxTemplate,
} from "@cocoon/contract/agent-sandbox";
import { jsonEqual, type Abortable } from "@cocoon/core";
import { getKey, type ObjectKey } from "@cocoon/kube";
import {
  controllerReference,
  isControlledBy,
  settled,
  type Outcome,
  type ReconcileContext,
} from "@cocoon/kube/controller";
import { sandboxTemplates, type NetworkPolicy } from "./kinds.ts";
import { writing, type SandboxParts } from "./parts.ts";

/** Private and link-local addresses: machines of a template reach the Internet, and nothing near them. */
const blocked = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"];
const blockedV6 = ["fc00::/7", "fe80::/10"];

export class TemplateReconciler {
  readonly #parts: SandboxParts;

  constructor(parts: SandboxParts) {
    this.#parts = parts;
  }

  async reconcile(key: ObjectKey, { signal }: ReconcileContext): Promise<Outcome> {
    const object = this.#parts.templates.get(key);
    if (!object || object.metadata.deletionTimestamp) return settled;
    const template = readSandboxTemplate(object);
    await this.#ensureLabel(template, { signal });
    await this.#ensurePolicy(template, { signal });
    return settled;
  }

  async #ensureLabel({ metadata }: SandboxTemplate, { signal }: Abortable): Promise<void> {
    const hash = sandboxHash(metadata.name ?? "");
    if (metadata.labels?.[sandboxLabel.templateRefHash] === hash) return;
    const body = { metadata: { uid: metadata.uid, labels: { [sandboxLabel.templateRefHash]: hash } } };
    await this.#parts.templates.patch(
      { key: getKey({ metadata }), patch: { type: "merge", body } },
      { signal },
    );
  }

  async #ensurePolicy(template: SandboxTemplate, { signal }: Abortable): Promise<void> {
    const { policies } = this.#parts;
    const wanted = buildNetworkPolicy(template);
    const current = policies.get(getKey(wanted));
    const owns = current !== undefined && isControlledBy(current, template);
    if (template.spec.networkPolicyManagement === "Unmanaged") {
      if (owns) await policies.delete(current, { signal });
      return;
    }
    if (!current) return void (await policies.ensure(wanted, writing({ signal })));
    if (!owns || jsonEqual(current.spec, wanted.spec)) return;
    const { uid = "", resourceVersion = "" } = current.metadata;
    await policies.update(
      { ...wanted, metadata: { ...wanted.metadata, uid, resourceVersion } },
      writing({ signal }),
    );
  }
}

function buildNetworkPolicy(template: SandboxTemplate): NetworkPolicy {
  const { name = "", namespace = "" } = template.metadata;
  const { networkPolicy } = template.spec;
  const rules = networkPolicy
    ? { ingress: networkPolicy.ingress ?? [], egress: networkPolicy.egress ?? [] }
    : { ingress: [routerOnly], egress: [internetOnly] };
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: {
      name: `${name}-network-policy`,
      namespace,
      ownerReferences: [controllerReference(sandboxTemplates, template)],
    },
    spec: {
      podSelector: { matchLabels: { [sandboxLabel.templateRefHash]: sandboxHash(name) } },
      policyTypes: ["Ingress", "Egress"],
      ...rules,
    },
  };
}

const routerOnly = {
  from: [
    {
      namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "agent-sandbox-system" } },
      podSelector: { matchLabels: { app: "sandbox-router" } },
    },
  ],
};
const internetOnly = {
  to: [{ ipBlock: { cidr: "0.0.0.0/0", except: blocked } }, { ipBlock: { cidr: "::/0", except: blockedV6 } }],
};
