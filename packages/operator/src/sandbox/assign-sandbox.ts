/** Gives a claim its Sandbox: out of the pool where one is ready, else made for it. */
import {
  readSandboxTemplate,
  readSandboxWarmPool,
  sandboxAnnotation,
  sandboxLabel,
  type SandboxClaim,
  type SandboxTemplate,
  type SandboxWarmPool,
} from "@cocoon/contract/agent-sandbox";
import { annotation } from "@cocoon/contract";
import { createMergePatch, type Abortable } from "@cocoon/core";
import { getKey } from "@cocoon/kube";
import { controllerReference, referenceTo } from "@cocoon/kube/controller";
import type { CustomObject } from "../kinds.ts";
import type { Candidates } from "./candidates.ts";
import { ClaimRefusal, envAnnotation, injectEnv, mergeMetadata } from "./claim-metadata.ts";
import { buildSandbox, hashTemplate, readBlueprint } from "./from-template.ts";
import { sandboxClaims } from "./kinds.ts";
import { writing, type SandboxParts } from "./parts.ts";
import type { SandboxObject } from "./settle.ts";

/** So long a claim waits for a member that is starting, before a machine is booted for it alone. */
const patienceMs = 2_000;

export interface ClaimSource {
  readonly pool: SandboxWarmPool;
  readonly template: SandboxTemplate;
}

export type Assignment =
  | { readonly kind: "assigned"; readonly sandbox: CustomObject }
  | { readonly kind: "wait" };

/** Throws a refusal for what is missing. */
export function findSource({ pools, templates }: SandboxParts, claim: SandboxClaim): ClaimSource {
  const { namespace } = claim.metadata;
  const { name } = claim.spec.warmPoolRef;
  const poolObject = pools.get({ namespace, name });
  if (!poolObject || poolObject.metadata.deletionTimestamp)
    throw new ClaimRefusal("WarmPoolNotFound", `SandboxWarmPool "${name}" not found`);
  const pool = readSandboxWarmPool(poolObject);
  const templateName = pool.spec.sandboxTemplateRef.name;
  const templateObject = templates.get({ namespace, name: templateName });
  if (!templateObject || templateObject.metadata.deletionTimestamp)
    throw new ClaimRefusal("TemplateNotFound", `SandboxTemplate "${templateName}" not found`);
  const template = readSandboxTemplate(templateObject);
  const volumes = [...(claim.spec.volumeClaimTemplates ?? []), ...(template.spec.volumeClaimTemplates ?? [])];
  if (volumes.length > 0)
    throw new ClaimRefusal(
      "VolumeClaimTemplatesError",
      "volumeClaimTemplates: machines cannot mount volumes, and keep their whole disk instead; remove them from the claim and its template",
    );
  return { pool, template };
}

export class Assigner {
  readonly #parts: SandboxParts;
  readonly #candidates: Candidates;

  constructor(parts: SandboxParts, candidates: Candidates) {
    this.#parts = parts;
    this.#candidates = candidates;
  }

  async assign(claim: SandboxClaim, source: ClaimSource, options: Abortable): Promise<Assignment> {
    const claimUid = claim.metadata.uid ?? "";
    // All rules are checked before a member is promised.
    mergeMetadata(source.template, claim);
    injectEnv(source.template, claim);
    const { pool, template } = source;
    const choice = this.#candidates.choose(claimUid, { pool, templateHash: hashTemplate(template) });
    if (choice.kind === "found") {
      try {
        await this.#note(claim, choice.member.metadata.name ?? "", options);
        return {
          kind: "assigned",
          sandbox: await this.adopt(claim, choice.member, { ...source, ...options }),
        };
      } finally {
        this.#candidates.release(claimUid);
      }
    }
    const ageMs = this.#parts.now().getTime() - Date.parse(claim.metadata.creationTimestamp ?? "");
    if (choice.kind === "starting" && ageMs < patienceMs) return { kind: "wait" };
    return { kind: "assigned", sandbox: await this.#create(claim, template, options) };
  }

  /** The claim says which Sandbox it takes before it takes it: a restart goes on from there. */
  async #note(claim: SandboxClaim, name: string, { signal }: Abortable): Promise<void> {
    const { uid, annotations } = claim.metadata;
    if (annotations?.[sandboxAnnotation.sandboxName] === name) return;
    const seen =
      annotations?.[sandboxAnnotation.controllerFirstObservedAt] ?? this.#parts.now().toISOString();
    const body = {
      metadata: {
        uid,
        annotations: {
          [sandboxAnnotation.sandboxName]: name,
          [sandboxAnnotation.controllerFirstObservedAt]: seen,
        },
      },
    };
    await this.#parts.claims.patch({ key: getKey(claim), patch: { type: "merge", body } }, { signal });
  }

  /** The version is the proof that no other claim took it meanwhile. Its pod, and so its machine, stays. */
  async adopt(
    claim: SandboxClaim,
    member: CustomObject,
    { template, signal }: ClaimSource & Abortable,
  ): Promise<CustomObject> {
    const { uid, resourceVersion } = member.metadata;
    const body = {
      metadata: {
        uid,
        resourceVersion,
        ownerReferences: [controllerReference(sandboxClaims, claim)],
        labels: { [sandboxLabel.warmPool]: null, ...claimLabels(claim, "warm") },
        annotations: { ...envAnnotation(claim), [annotation.pause]: null },
      },
      spec: { podTemplate: this.#podTemplatePatch(claim, member, template) ?? {} },
    };
    const adopted = await this.#parts.sandboxes.patch(
      { key: getKey(member), patch: { type: "merge", body } },
      { signal },
    );
    this.#parts.events.record(referenceTo(sandboxClaims, claim), {
      type: "Normal",
      reason: "SandboxAdopted",
      message: `took Sandbox ${member.metadata.name} out of the warm pool`,
    });
    return adopted;
  }

  // oxlint-disable-next-line max-params -- the claim, what it has, and what both are made from
  #podTemplatePatch(claim: SandboxClaim, sandbox: SandboxObject, template: SandboxTemplate): unknown {
    const current = (sandbox.spec as { podTemplate?: { spec?: object } } | undefined)?.podTemplate ?? {};
    const containers = (claim.spec.env ?? []).length > 0 ? { containers: injectEnv(template, claim) } : {};
    const wanted = {
      ...current,
      metadata: mergeMetadata(template, claim),
      spec: { ...current.spec, ...containers },
    };
    return createMergePatch(current, wanted);
  }

  /** Metadata of the Sandbox's pod follows the template and the claim; anything else there is removed. */
  async followMetadata(
    claim: SandboxClaim,
    sandbox: CustomObject,
    { template, signal }: { readonly template: SandboxTemplate } & Abortable,
  ): Promise<void> {
    const patch = this.#podTemplatePatch(claim, sandbox, template) as { metadata?: object } | undefined;
    if (patch?.metadata === undefined) return;
    const { uid } = sandbox.metadata;
    const body = { metadata: { uid }, spec: { podTemplate: { metadata: patch.metadata } } };
    await this.#parts.sandboxes.patch({ key: getKey(sandbox), patch: { type: "merge", body } }, { signal });
  }

  async #create(claim: SandboxClaim, template: SandboxTemplate, options: Abortable): Promise<CustomObject> {
    const blueprint = readBlueprint(template);
    const podTemplate = {
      metadata: mergeMetadata(template, claim),
      spec: { ...blueprint.podTemplate.spec, containers: injectEnv(template, claim) },
    };
    const made = buildSandbox(template, {
      name: claim.metadata.name ?? "",
      owner: controllerReference(sandboxClaims, claim),
      labels: claimLabels(claim, "cold"),
      spec: { ...blueprint, podTemplate },
    });
    const sandbox = await this.#parts.sandboxes.ensure(made, writing(options));
    this.#parts.events.record(referenceTo(sandboxClaims, claim), {
      type: "Normal",
      reason: "SandboxProvisioned",
      message: `made Sandbox ${made.metadata.name}`,
    });
    return sandbox;
  }
}

function claimLabels({ metadata }: SandboxClaim, launchType: "warm" | "cold"): Record<string, string> {
  const createdBy = metadata.labels?.[sandboxLabel.createdBy];
  return {
    [sandboxLabel.launchType]: launchType,
    [sandboxLabel.claimUid]: metadata.uid ?? "",
    ...(createdBy === undefined ? {} : { [sandboxLabel.createdBy]: createdBy }),
  };
}
