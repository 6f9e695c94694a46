/**
 * The port to a host network. It reserves addresses and makes host devices; the backend starts the hypervisor with
 * what it is told and says when the VM is gone. `qemu/src/network/` implements it: `user`,
 * `bridge` and `cni`.
 */
import type { Abortable } from "@cocoon/core";
import type { GuestNic } from "./image-store.ts";
import type { NetworkSpec } from "./requests.ts";
import type { PortForward, VmAddress, VmNic } from "./vm.ts";

export interface NetworkRequest {
  readonly vmId: string;
  readonly vmName: string;
  readonly cpus: number;
  readonly spec: NetworkSpec;
}

/** One interface: what the record says, what the guest is told, what QEMU is given. */
export interface NicPlan {
  readonly nic: VmNic;
  readonly guest: GuestNic;
  /**
   * Value of `-netdev` without `id=`, for example `user,restrict=on,hostfwd=tcp:127.88.0.5:2222-:22`. No secrets: it
   * is seen by every user who lists processes.
   */
  readonly netdev: string;
  /**
   * Whether the guest must be given `guest.mac` by the agent after a clone. QEMU's own MAC argument is ignored by a
   * restored guest; in the user network the old one may stay.
   */
  readonly refreshMac: boolean;
}

export interface VmNetwork {
  readonly kind: "user" | "bridge" | "cni";
  /**
   * Reserves and makes everything for the VM's interfaces. Repeatable: the same VM gets the same answer until
   * `release`, also from another process and after a crash; only on the CNI network a restart of the host may change it.
   * An address is never handed out twice. Called again before a stopped VM starts.
   */
  prepare(request: NetworkRequest, options: Abortable): Promise<readonly NicPlan[]>;
  /**
   * Reserves one more forward of a running VM (user network) and remembers it; the backend then tells QEMU. Repeatable.
   * `notSupported` where every port is reachable anyway.
   */
  addForward(
    vmId: string,
    port: { readonly protocol: "tcp" | "udp"; readonly guestPort: number },
    options: Abortable,
  ): Promise<PortForward>;
  /** Undoes `prepare`. Repeatable; unknown VMs are fine. */
  release(vmId: string, options: Abortable): Promise<void>;
  /**
   * Releases everything that belongs to none of the VMs. They are listed after the network has seen what there is: a VM's
   * record is written before its network is prepared, so one that is being made is never taken for removed.
   */
  reconcile(listVmIds: () => Promise<ReadonlySet<string>>, options: Abortable): Promise<void>;
  /** Where the VM can be reached; undefined while there is no lease yet. */
  address(vmId: string, options: Abortable): Promise<VmAddress | undefined>;
}
