// Programs that do not come from npm: which Debian packages bring them, for which commands, and why.
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

/** Whether a program of that name is on PATH. */
function onPath(program) {
  return (process.env.PATH ?? "")
    .split(delimiter)
    .concat(["/usr/sbin", "/sbin"])
    .some((directory) => existsSync(join(directory, program)));
}

function hasCniPlugins() {
  return existsSync("/opt/cni/bin/ptp") || existsSync("/usr/lib/cni/ptp");
}

/** Commands that start real parts. */
const running = ["up", "test", "test:full", "test:int", "test:e2e", "bench"];

/** Commands that make machines. */
const machines = ["up", "test", "test:full", "test:unit", "test:int", "test:e2e", "check", "bench"];

const testing = ["test", "test:full", "test:unit", "test:int", "test:e2e", "check", "bench"];

export const requirements = [
  {
    packages: ["git"],
    present: () => onPath("git"),
    why: "the revision that --version prints",
    for: ["test", "test:full", "build"],
  },
  {
    packages: ["ca-certificates", "tar"],
    present: () => onPath("tar") && existsSync("/etc/ssl/certs"),
    why: "downloading and unpacking the control plane",
    for: running,
  },
  {
    packages: ["util-linux"],
    present: () => onPath("setpriv"),
    why: "setpriv, so that what a test starts ends with the test",
    for: ["test", "test:full", "test:int", "test:e2e", "bench"],
  },
  {
    packages: ["systemd"],
    present: () => onPath("systemd-analyze"),
    why: "systemd-analyze, which judges the units in packaging/",
    for: ["test", "test:full", "test:int"],
  },
  {
    packages: ["skopeo"],
    present: () => onPath("skopeo"),
    why: "a registry client that is not ours, to test the registry with",
    for: ["test", "test:full", "test:int"],
  },
  {
    packages: ["qemu-system-x86", "qemu-utils", "ovmf"],
    present: () => onPath("qemu-system-x86_64") && onPath("qemu-img") && existsSync("/usr/share/OVMF"),
    why: "the machines themselves",
    for: machines,
  },
  {
    packages: ["cpio", "e2fsprogs", "dpkg", "gcc", "libc6-dev", "mmdebstrap"],
    present: () => ["cpio", "mke2fs", "debugfs", "dpkg-deb", "gcc", "mmdebstrap"].every(onPath),
    why: "building guest images and the agent that runs in them",
    for: machines,
  },
  {
    packages: ["iputils-ping"],
    present: () => onPath("ping"),
    why: "seeing whether a machine is on the network",
    for: machines,
  },
  {
    packages: ["openssh-client"],
    present: () => onPath("ssh") && onPath("ssh-keygen"),
    why: "`cocoonctl ssh`",
    for: machines,
  },
  {
    packages: ["chromium"],
    present: () => onPath("chromium"),
    why: "a real browser, to test the dashboard with",
    for: ["test", "test:full", "test:e2e"],
  },
  {
    packages: ["iproute2", "dnsmasq-base", "nftables"],
    present: () => ["ip", "dnsmasq", "nft"].every(onPath),
    why: "bridged networks, tested inside a network namespace",
    for: testing,
  },
  {
    packages: ["containernetworking-plugins", "iptables", "slirp4netns"],
    present: () => hasCniPlugins() && onPath("iptables") && onPath("slirp4netns"),
    why: "CNI networks, tested inside network namespaces",
    for: testing,
  },
  {
    packages: ["iproute2", "nftables", "iptables", "slirp4netns", "containernetworking-plugins"],
    present: () => hasCniPlugins() && ["ip", "nft", "iptables", "slirp4netns"].every(onPath),
    why: "a network of the machines' own; without it their ports are forwarded",
    optionalFor: ["up"],
  },
];
