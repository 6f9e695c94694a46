/** A SandboxWarmPool: keeps so many Sandboxes with booted machines. */
import { randomInt } from "node:crypto";
import { annotation, readFlag } from "@cocoon/contract";
import {
  readSandboxTemplate,
  readSandboxWarmPool,
  sandboxHash,
  sandboxLabel,
  type SandboxTemplate,
  type SandboxWarmPool,
  type SandboxWarmPoolStatus,
} from "@cocoon/contract/agent-sandbox";
import { ignoreFault, isFault, jsonEqual, type Abortable } from "@cocoon/core";
import type { ObjectKey } from "@cocoon/kube";
import {
  controllerReference,
  isControlledBy,
  referenceTo,
  requeue,
  settled,
  type Outcome,
  type ReconcileContext,
} from "@cocoon/kube/controller";
import { patchStatus, type CustomObject } from "../kinds.ts";
import { buildSandbox, hashTemplate, readBlueprint } from "./from-template.ts";
import { sandboxWarmPools } from "./kinds.ts";
import { writing, type SandboxParts } from "./parts.ts";
import { isLiving, isReady, planPool, type PoolPlan } from "./plan-pool.ts";

const writesAtOnce = 16;

export class PoolReconciler {
  readonly #parts: SandboxParts;

  constructor(parts: SandboxParts) {
    this.#parts = parts;
  }

  async reconcile(key: ObjectKey, { signal }: ReconcileContext): Promise<Outcome> {
    const object = this.#parts.pools.get(key);
    if (!object || object.metadata.deletionTimestamp) return settled;
    const pool = readSandboxWarmPool(object);
    const template = this.#findTemplate(pool);
    const templateHash = template && hashTemplate(template);
    const plan = planPool({ pool, templateHash, members: this.#listMembers(pool), now: this.#parts.now() });
    if (template) await this.#create({ pool, template, count: plan.create }, { signal });
    await this.#remove(plan.remove, { signal });
    this.#report(pool, plan, template !== undefined);
    await this.#writeStatus(object, pool, { signal });
    return plan.requeueAfterMs === undefined
      ? settled
      : requeue(plan.requeueAfterMs, "a member is not ready");
  }

  /** A template whose machines could never be ready has no members. */
  #findTemplate({ metadata, spec }: SandboxWarmPool): SandboxTemplate | undefined {
    const key = { namespace: metadata.namespace, name: spec.sandboxTemplateRef.name };
    const found = this.#parts.templates.get(key);
    const template = found && !found.metadata.deletionTimestamp ? readSandboxTemplate(found) : undefined;
    return (template?.spec.volumeClaimTemplates ?? []).length > 0 ? undefined : template;
  }

  #listMembers(pool: SandboxWarmPool): readonly CustomObject[] {
    const { sandboxes, sandboxesByOwner } = this.#parts;
    return sandboxes.merge(sandboxesByOwner.get(pool.metadata.uid ?? ""), (each) =>
      isControlledBy(each, pool),
    );
  }

  async #create(
    { pool, template, count }: { pool: SandboxWarmPool; template: SandboxTemplate; count: number },
    options: Abortable,
  ): Promise<void> {
    const owner = controllerReference(sandboxWarmPools, pool);
    const labels = { [sandboxLabel.warmPool]: sandboxHash(pool.metadata.name ?? "") };
    const annotations = readFlag(pool.metadata.annotations, annotation.pause)
      ? { [annotation.pause]: "true" }
      : {};
    const made = { owner, labels, annotations, spec: readBlueprint(template) };
    const members = Array.from({ length: count }, () =>
      buildSandbox(template, { ...made, name: `${pool.metadata.name}-${generateSuffix()}` }),
    );
    await inBatches(members, async (member) => {
      // Another object has the generated name: the next look makes another one.
      await ignoreFault("alreadyExists", this.#parts.sandboxes.ensure(member, writing(options)));
    });
  }

  /** Only as it was seen: one that a claim took meanwhile has another version. */
  #remove(members: readonly CustomObject[], { signal }: Abortable): Promise<void> {
    return inBatches(members, async (member) => {
      const { resourceVersion = "" } = member.metadata;
      try {
        await this.#parts.sandboxes.delete(member, { signal, preconditions: { resourceVersion } });
      } catch (error) {
        if (!isFault(error, "conflict")) throw error;
      }
    });
  }

  #report(pool: SandboxWarmPool, { unschedulable }: PoolPlan, hasTemplate: boolean): void {
    const record = (message: string) =>
      this.#parts.events.record(referenceTo(sandboxWarmPools, pool), {
        type: "Warning",
        reason: "WarmPoolNotProgressing",
        message,
      });
    const { name } = pool.spec.sandboxTemplateRef;
    if (!hasTemplate)
      record(
        `SandboxTemplate ${name} does not exist, or has volumeClaimTemplates, which machines cannot mount`,
      );
    if (unschedulable > 0) record(`${unschedulable} members wait for room on a VM host`);
  }

  async #writeStatus(object: CustomObject, pool: SandboxWarmPool, options: Abortable): Promise<void> {
    const members = this.#listMembers(pool).filter(isLiving);
    const status: SandboxWarmPoolStatus = {
      replicas: members.length,
      readyReplicas: members.filter(isReady).length,
      selector: `${sandboxLabel.warmPool}=${sandboxHash(pool.metadata.name ?? "")}`,
      observedGeneration: pool.metadata.generation ?? 0,
    };
    if (!jsonEqual(object.status ?? {}, status))
      await ignoreFault("notFound", patchStatus(this.#parts.pools, { object, status }, options));
  }
}

/** As the API server makes names: no vowels, no digits that look like letters. */
const alphabet = "bcdfghjklmnpqrstvwxz2456789";

function generateSuffix(): string {
  return Array.from({ length: 5 }, () => alphabet[randomInt(alphabet.length)]).join("");
}

async function inBatches<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  for (let at = 0; at < items.length; at += writesAtOnce)
    await Promise.all(items.slice(at, at + writesAtOnce).map(work));
}
