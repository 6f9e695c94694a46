/** One SandboxClaim: finds or gets its Sandbox, forwards its readiness, and expires. */
import { readSandboxClaim, sandboxAnnotation, type SandboxClaim } from "@cocoon/contract/agent-sandbox";
import { getErrorMessage, ignoreFault, isFault, jsonEqual, type Abortable } from "@cocoon/core";
import { findCondition, isConditionTrue } from "@cocoon/core/conditions";
import { getKey, type ObjectKey } from "@cocoon/kube";
import {
  findController,
  isControlledBy,
  referenceTo,
  requeue,
  settled,
  type Outcome,
  type ReconcileContext,
} from "@cocoon/kube/controller";
import { patchStatus, type CustomObject } from "../kinds.ts";
import { Assigner, findSource } from "./assign-sandbox.ts";
import { Candidates } from "./candidates.ts";
import { ClaimRefusal } from "./claim-metadata.ts";
import { computeClaimStatus, getClaimExpiry, type ClaimProblem } from "./claim-status.ts";
import { sandboxClaims, sandboxWarmPools } from "./kinds.ts";
import type { SandboxParts } from "./parts.ts";

const memberRetryMs = 500;
const missingRetryMs = 60_000;
const longestWaitMs = 12 * 60 * 60_000;

interface Held {
  readonly sandbox: CustomObject | undefined;
  readonly problem?: ClaimProblem;
  /** When to look again, whatever happens. */
  readonly afterMs?: number;
}

export class ClaimReconciler {
  readonly #parts: SandboxParts;
  readonly #assigner: Assigner;

  constructor(parts: SandboxParts) {
    this.#parts = parts;
    this.#assigner = new Assigner(parts, new Candidates(parts));
  }

  async reconcile(key: ObjectKey, { signal, log }: ReconcileContext): Promise<Outcome> {
    const object = this.#parts.claims.get(key);
    if (!object || object.metadata.deletionTimestamp) return settled;
    const claim = readSandboxClaim(object);
    const expiry = getClaimExpiry(claim);
    if (expiry !== undefined && this.#parts.now().getTime() >= expiry)
      return this.#expire(object, claim, { signal });
    const held = await this.#hold(claim, { signal });
    await this.#writeStatus(object, { claim, ...held }, { signal });
    if (held.problem)
      log.info({ reason: held.problem.reason, error: held.problem.message }, "claim not served");
    const waits = [held.afterMs, expiry === undefined ? undefined : expiry - this.#parts.now().getTime() + 1];
    const next = waits.filter((each): each is number => each !== undefined);
    return next.length === 0
      ? settled
      : requeue(Math.min(...next, longestWaitMs), "claim is looked at again");
  }

  async #hold(claim: SandboxClaim, options: Abortable): Promise<Held> {
    try {
      return await this.#find(claim, options);
    } catch (error) {
      options.signal.throwIfAborted();
      // Another claim was faster: the next look finds another member.
      if (isFault(error, "conflict")) throw error;
      const refused = error instanceof ClaimRefusal;
      if (!refused && !isFault(error, "invalid")) throw error;
      const reason = refused ? error.reason : "ReconcilerError";
      return {
        sandbox: undefined,
        problem: { reason, message: getErrorMessage(error) },
        afterMs: missingRetryMs,
      };
    }
  }

  async #find(claim: SandboxClaim, { signal }: Abortable): Promise<Held> {
    const current = this.#findCurrent(claim);
    if (current && isControlledBy(current, claim)) {
      if (current.metadata.deletionTimestamp) return { sandbox: undefined, problem: replaced };
      const source = this.#trySource(claim);
      if (source) await this.#assigner.followMetadata(claim, current, { ...source, signal });
      return { sandbox: this.#parts.sandboxes.get(getKey(current)) ?? current };
    }
    const source = findSource(this.#parts, claim);
    if (current && isMember(current)) {
      return { sandbox: await this.#assigner.adopt(claim, current, { ...source, signal }) };
    }
    await this.#forget(claim, { signal });
    const named = this.#parts.sandboxes.get(getKey(claim));
    if (named?.metadata.deletionTimestamp && isControlledBy(named, claim))
      return { sandbox: undefined, problem: replaced };
    const assignment = await this.#assigner.assign(claim, source, { signal });
    if (assignment.kind === "assigned") return { sandbox: assignment.sandbox };
    const message = "members of the warm pool are starting";
    return {
      sandbox: undefined,
      problem: { reason: "SandboxCreatePending", message },
      afterMs: memberRetryMs,
    };
  }

  /** By the status, by what the claim noted before it took one, by its own name. */
  #findCurrent(claim: SandboxClaim): CustomObject | undefined {
    const { namespace, name = "", annotations } = claim.metadata;
    const names = [claim.status?.sandbox?.name, annotations?.[sandboxAnnotation.sandboxName], name];
    for (const each of names) {
      const found = each ? this.#parts.sandboxes.get({ namespace, name: each }) : undefined;
      if (found && (isControlledBy(found, claim) || (each !== name && isMember(found)))) return found;
    }
    return undefined;
  }

  /** A Sandbox that is there does not need its pool any more. */
  #trySource(claim: SandboxClaim): ReturnType<typeof findSource> | undefined {
    try {
      return findSource(this.#parts, claim);
    } catch (error) {
      if (error instanceof ClaimRefusal) return undefined;
      throw error;
    }
  }

  /** What the claim noted is gone, or another claim's. */
  async #forget(claim: SandboxClaim, { signal }: Abortable): Promise<void> {
    if (claim.metadata.annotations?.[sandboxAnnotation.sandboxName] === undefined) return;
    const body = {
      metadata: { uid: claim.metadata.uid, annotations: { [sandboxAnnotation.sandboxName]: null } },
    };
    await this.#parts.claims.patch({ key: getKey(claim), patch: { type: "merge", body } }, { signal });
  }

  async #expire(object: CustomObject, claim: SandboxClaim, { signal }: Abortable): Promise<Outcome> {
    const problem = { reason: "ClaimExpired", message: "Claim has expired" };
    const marked = findCondition(claim.status?.conditions, "Ready")?.reason === problem.reason;
    if (!marked) {
      this.#parts.events.record(referenceTo(sandboxClaims, claim), { type: "Normal", ...problem });
      await this.#writeStatus(object, { claim, sandbox: this.#findCurrent(claim), problem }, { signal });
      return requeue(1, "the expiry is reported; now it is applied");
    }
    const { shutdownPolicy = "Retain" } = claim.spec.lifecycle ?? {};
    if (shutdownPolicy === "Retain") await this.#deleteSandbox(claim, { signal });
    else await this.#deleteClaim(claim, { signal, foreground: shutdownPolicy === "DeleteForeground" });
    return settled;
  }

  async #deleteSandbox(claim: SandboxClaim, { signal }: Abortable): Promise<void> {
    const current = this.#findCurrent(claim);
    if (!current || !isControlledBy(current, claim) || current.metadata.deletionTimestamp) return;
    if (await this.#isStillExpired(claim, { signal }))
      await this.#parts.sandboxes.delete(current, { signal });
  }

  async #deleteClaim(
    claim: SandboxClaim,
    { signal, foreground }: Abortable & { readonly foreground: boolean },
  ): Promise<void> {
    const resourceVersion = await this.#isStillExpired(claim, { signal });
    if (!resourceVersion) return;
    const { uid = "" } = claim.metadata;
    await ignoreFault(
      "notFound",
      this.#parts.client.delete(sandboxClaims, getKey(claim), {
        signal,
        preconditions: { uid, resourceVersion },
        propagationPolicy: foreground ? "Foreground" : "Background",
      }),
    );
  }

  /** Read from the API server: a cache may not show yet that the time was moved. Its version when it is so. */
  async #isStillExpired(claim: SandboxClaim, options: Abortable): Promise<string | undefined> {
    const live = await ignoreFault("notFound", this.#parts.client.get(sandboxClaims, getKey(claim), options));
    if (!live || live.metadata.uid !== claim.metadata.uid) return undefined;
    const expiry = getClaimExpiry(readSandboxClaim(live));
    const isExpired = expiry !== undefined && this.#parts.now().getTime() >= expiry;
    return isExpired ? live.metadata.resourceVersion : undefined;
  }

  async #writeStatus(
    object: CustomObject,
    { claim, sandbox, problem }: Held & { readonly claim: SandboxClaim },
    options: Abortable,
  ): Promise<void> {
    const status = computeClaimStatus({ claim, sandbox, problem, now: this.#parts.now() });
    if (jsonEqual(object.status ?? {}, status)) return;
    const current = this.#parts.claims.get(getKey(object)) ?? object;
    await ignoreFault("notFound", patchStatus(this.#parts.claims, { object: current, status }, options));
    if (isConditionTrue(status.conditions, "Ready")) await this.#noteReady(claim, options);
  }

  /** Once, for the latency that clients read. */
  async #noteReady({ metadata }: SandboxClaim, { signal }: Abortable): Promise<void> {
    if (metadata.annotations?.[sandboxAnnotation.claimFirstReadyAt] !== undefined) return;
    const annotations = { [sandboxAnnotation.claimFirstReadyAt]: this.#parts.now().toISOString() };
    const patch = { type: "merge", body: { metadata: { uid: metadata.uid, annotations } } } as const;
    await ignoreFault("notFound", this.#parts.claims.patch({ key: getKey({ metadata }), patch }, { signal }));
  }
}

const replaced: ClaimProblem = { reason: "SandboxMissing", message: "Sandbox was deleted and is replaced" };

function isMember(sandbox: CustomObject): boolean {
  const owner = findController(sandbox);
  return owner?.kind === sandboxWarmPools.kind && sandbox.metadata.deletionTimestamp === undefined;
}

export function claimOfSandbox(sandbox: CustomObject): ObjectKey[] {
  const owner = findController(sandbox);
  const isClaim =
    owner?.kind === sandboxClaims.kind && owner.apiVersion.startsWith(`${sandboxClaims.group}/`);
  return isClaim ? [{ namespace: sandbox.metadata.namespace, name: owner.name }] : [];
}
