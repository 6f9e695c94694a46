/**
 * What a Linux guest that was cloned must do to become a machine of its own, where no agent does it: a script for its
 * root shell. Pure.
 */
import type { Vm } from "@cocoon/vm";
import { shellWords } from "./shell-words.ts";

export interface PostCloneFacts {
  readonly vm: Pick<Vm, "name" | "nics" | "hypervisor" | "config">;
}

/** A cloud image renews itself by cloud-init; others get their network files written. */
export function postCloneScript({ vm }: PostCloneFacts): string {
  const cloudImage = vm.config.imageType === "cloudimg";
  return [
    "echo 3 > /proc/sys/vm/drop_caches",
    `echo ${shellWords([vm.name])} > /etc/hostname`,
    ...(vm.hypervisor === "firecracker" ? vm.nics.flatMap(renameMac) : []),
    // Other systems ask by DHCP when their link comes back, and that is all that is known of them.
    "if [ -d /run/systemd/system ]; then",
    "rm -f /etc/systemd/network/10-*.network",
    ...(cloudImage ? cloudInit : vm.nics.map(networkFile)),
    "systemctl restart systemd-networkd",
    "fi",
  ].join("\n");
}

const cloudInit = [
  "cloud-init clean --logs --seed --configs network",
  "cloud-init init --local",
  "cloud-init init",
  "cloud-init modules --mode=config",
];

type Nic = Vm["nics"][number];

function renameMac({ mac }: Nic, index: number): readonly string[] {
  const device = `eth${index}`;
  return [`ip link set ${device} down`, `ip link set ${device} address ${mac}`, `ip link set ${device} up`];
}

function networkFile({ mac, address }: Nic): string {
  const settings = address
    ? [`Address=${address.ip}/${address.prefix}`, ...(address.gateway ? [`Gateway=${address.gateway}`] : [])]
    : ["DHCP=ipv4", "[DHCPv4]", "ClientIdentifier=mac"];
  const text = ["[Match]", `MACAddress=${mac}`, "[Network]", ...settings].join("\\n");
  return `printf '${text}\\n' > /etc/systemd/network/10-${mac.replaceAll(":", "")}.network`;
}
