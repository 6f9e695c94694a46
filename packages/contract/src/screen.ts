/**
 * The screen of a machine: the hypervisor's own display, which needs nothing in the guest. Clients reach it as an exec of this
 * command, which runs in the kubelet and not in the guest: its stdin and stdout are the two ways of an RFB (VNC) stream, and
 * who may exec in the pod may see the screen.
 */
import type { VmSpec } from "./vm-spec.ts";

export const screenCommand = "cocoon.screen";

/** Machines that are reached by VNC, and Windows unless it says that it is reached in another way. */
export function wantsScreen({ os, connType }: Pick<VmSpec, "os" | "connType">): boolean {
  return connType === "vnc" || (connType === "" && os.toLowerCase() === "windows");
}
