/**
 * The snapshots of machines in a registry: the only implementation of it, for the kubelet, the operator, the webhook and the
 * command line. A machine's repository has the machine's VM name.
 *
 * Every method throws when the registry did not answer (`unavailable`, `timeout`); "not there" is an answer, and rests on a
 * manifest's own 404. Every method may be repeated. What a method sets it reads back before it resolves.
 */
import { hibernateTag, isRepository, tryParseImageReference, type ArtifactKind } from "@cocoon/contract";
import { Fault, type Abortable, ignoreFault } from "@cocoon/core";
import { readArtifactKind, type PushReport, type Registry, type Repository } from "@cocoon/oci";
import { CallGate, type CallLimits } from "./call-gate.ts";
import { claimSnapshot, removeClaim, sealSnapshot, verifyClaim, type Claim } from "./snapshots/claim.ts";
import {
  dropSnapshot,
  releaseSnapshot,
  settleSnapshots,
  type Drop,
  type DropOutcome,
  type Release,
  type Released,
  type Settlement,
} from "./snapshots/drop.ts";
import {
  findHibernated,
  findManifest,
  findSnapshot,
  listSnapshots,
  type HibernatedSnapshot,
  type SnapshotInfo,
  type SnapshotOrigin,
  type StoredSnapshot,
} from "./snapshots/find.ts";
import { pushVerified, type PushRequest } from "./snapshots/push.ts";
import {
  adoptSnapshot,
  expireSnapshots,
  removeSnapshot,
  type OwnTag,
  type Retention,
} from "./snapshots/retention.ts";
import { findDigest, retagVerified, type TagTarget } from "./snapshots/tags.ts";

export interface MachineSnapshotsOptions {
  readonly registry: Registry;
  /** Limits for everything but pushes; without them calls run as long as their signal allows. */
  readonly limits?: Partial<CallLimits>;
}

export class MachineSnapshots {
  readonly #registry: Registry;
  readonly #gate: CallGate | undefined;

  constructor({ registry, limits }: MachineSnapshotsOptions) {
    this.#registry = registry;
    this.#gate = limits && new CallGate(limits);
  }

  /** Digest of what the machine is hibernated in. */
  findHibernatedDigest(vmName: string, options: Abortable): Promise<string | undefined> {
    return this.findDigest(vmName, hibernateTag, options);
  }

  /** The digest that a tag names, or a digest that is there. */
  async findDigest(vmName: string, reference: string, options: Abortable): Promise<string | undefined> {
    if (!isRepository(vmName)) return undefined; // no machine with such a name was ever pushed
    return this.#run(vmName, options, (repository, limited) => findDigest(repository, reference, limited));
  }

  /** What the machine is hibernated in, with seal and claims. `damaged` when it is there and cannot be read. */
  findHibernated(vmName: string, options: Abortable): Promise<HibernatedSnapshot | undefined> {
    return this.#run(vmName, options, findHibernated);
  }

  /** From the manifest alone, so that a damaged one can be handled too. */
  async findHibernatedOrigin(
    vmName: string,
    options: Abortable,
  ): Promise<(SnapshotOrigin & { readonly digest: string }) | undefined> {
    return this.#run(vmName, options, (repository, limited) =>
      findManifest(repository, hibernateTag, limited),
    );
  }

  find(vmName: string, reference: string, options: Abortable): Promise<SnapshotInfo | undefined> {
    return this.#run(vmName, options, (repository, limited) => findSnapshot(repository, reference, limited));
  }

  /** All snapshots of the machine that can be started, one entry per tag. */
  list(vmName: string, options: Abortable): Promise<readonly StoredSnapshot[]> {
    return this.#run(vmName, options, (repository, limited) => listSnapshots(repository, vmName, limited));
  }

  /** What an image reference names in this registry; undefined when it names nothing here. */
  async findKind(image: string, options: Abortable): Promise<ArtifactKind | undefined> {
    const reference = tryParseImageReference(image);
    if (!reference || reference.kind !== "registry" || reference.registry !== undefined) return undefined;
    const name = reference.digest ?? reference.tag ?? "latest";
    return ignoreFault(
      "notFound",
      this.#run(reference.repository, options, async (repository, limited) =>
        readArtifactKind((await repository.getManifest(name, limited)).bytes),
      ),
    );
  }

  /** Pushes and reads the tag back. `forbidden` when the tag holds a machine of another namespace. */
  push(request: PushRequest): Promise<PushReport> {
    return pushVerified(this.#registry.repository(request.vmName), request);
  }

  /** Sets a tag on a digest and reads it back. */
  retag(vmName: string, target: TagTarget, options: Abortable): Promise<void> {
    return this.#run(vmName, options, (repository, limited) => retagVerified(repository, target, limited));
  }

  /** After the VM was removed from the node: the snapshot may be restored anywhere. */
  seal(vmName: string, claim: Claim, options: Abortable): Promise<void> {
    return this.#run(vmName, options, (repository, limited) => sealSnapshot(repository, claim, limited));
  }

  /** Before a restore: no other node may restore it. `conflict` when another one claims it. */
  claim(vmName: string, claim: Claim, options: Abortable): Promise<void> {
    return this.#run(vmName, options, (repository, limited) => claimSnapshot(repository, claim, limited));
  }

  /** Just before the guest runs. `conflict` when the node does not claim it any more. */
  verifyClaim(vmName: string, claim: Claim, options: Abortable): Promise<void> {
    return this.#run(vmName, options, (repository, limited) => verifyClaim(repository, claim, limited));
  }

  /** Ends the claim of a node that is fenced. */
  removeClaim(vmName: string, node: string, options: Abortable): Promise<void> {
    return this.#run(vmName, options, (repository, limited) => removeClaim(repository, node, limited));
  }

  /** Removes what a running machine was restored from, with proof of descent. */
  drop(vmName: string, drop: Drop, options: Abortable): Promise<DropOutcome> {
    return this.#run(vmName, options, (repository, limited) => dropSnapshot(repository, drop, limited));
  }

  /** Renames what the machine is hibernated in: kept, but not restored by itself. */
  release(vmName: string, request: Release, options: Abortable): Promise<Released | undefined> {
    return this.#run(vmName, options, (repository, limited) => releaseSnapshot(repository, request, limited));
  }

  /** The machine's set is deleted. */
  settle(vmName: string, settlement: Settlement, options: Abortable): Promise<void> {
    return this.#run(vmName, options, (repository, limited) =>
      settleSnapshots(repository, settlement, limited),
    );
  }

  /** Removes old snapshots that no machine is hibernated in; returns their tags. */
  expire(vmName: string, retention: Retention, options: Abortable): Promise<readonly string[]> {
    return this.#run(vmName, options, (repository, limited) =>
      expireSnapshots(repository, retention, limited),
    );
  }

  /** Removes one tag that no machine is hibernated in. False when it is not there. */
  remove(vmName: string, own: OwnTag, options: Abortable): Promise<boolean> {
    return this.#run(vmName, options, (repository, limited) => removeSnapshot(repository, own, limited));
  }

  /** Makes an existing snapshot the one that the machine is hibernated in, unless there is one. */
  adopt(vmName: string, own: OwnTag, options: Abortable): Promise<string | undefined> {
    return this.#run(vmName, options, (repository, limited) => adoptSnapshot(repository, own, limited));
  }

  #run<T>(
    vmName: string,
    options: Abortable,
    call: (repository: Repository, options: Abortable) => Promise<T>,
  ): Promise<T> {
    if (vmName === "") throw new Fault("invalid", "a machine without a VM name has no snapshots");
    const repository = this.#registry.repository(vmName);
    return this.#gate
      ? this.#gate.run(options, (limited) => call(repository, limited))
      : call(repository, options);
  }
}
