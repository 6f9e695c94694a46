/**
 * Files for cloud-init's NoCloud source. They are YAML by name and JSON by content, which every YAML reader accepts.
 * The agent travels on the same disk and is installed on the way, so that any image with cloud-init has one.
 */
import type { GuestNic, SeedFacts } from "@cocoon/vm";

/** Where the agent is put in guests that have an init of their own. */
export const agentPath = "/usr/local/sbin/cocoon-guest";

export const agentUnit = `[Unit]
Description=Cocoon guest agent
DefaultDependencies=no
After=systemd-udevd.service

[Service]
ExecStart=${agentPath} agent
Restart=always
RestartSec=1
OOMScoreAdjust=-900
KillMode=process

[Install]
WantedBy=sysinit.target
`;

/** Runs early in every boot; does nothing when the agent is already the one on the disk. */
const installAgent = `#!/bin/sh
set -e
seed=$1
cmp -s "$seed/cocoon-guest" ${agentPath} && exit 0
mkdir -p "$(dirname ${agentPath})"
cp "$seed/cocoon-guest" ${agentPath}.new
chmod 0755 ${agentPath}.new
mv -f ${agentPath}.new ${agentPath}
if [ -d /run/systemd/system ]; then
  cp "$seed/cocoon-agent.service" /etc/systemd/system/cocoon-agent.service
  systemctl daemon-reload
  systemctl enable cocoon-agent.service
  systemctl restart --no-block cocoon-agent.service
else
  ${agentPath} agent &
fi
`;

const runInstaller =
  "seed=$(mktemp -d) && mount -o ro LABEL=CIDATA $seed && sh $seed/install-agent.sh $seed; umount $seed; rmdir $seed";

export function cloudInitFiles(
  facts: SeedFacts,
  agentProgram: Uint8Array,
): Readonly<Record<string, Uint8Array>> {
  return {
    "meta-data": Buffer.from(yaml(metaData(facts))),
    "user-data": Buffer.from(`#cloud-config\n${yaml(userData(facts))}`),
    "network-config": Buffer.from(yaml(networkConfig(facts.nics))),
    "cocoon-guest": agentProgram,
    "cocoon-agent.service": Buffer.from(agentUnit),
    "install-agent.sh": Buffer.from(installAgent),
  };
}

/** YAML takes these characters for line breaks, or drops them, where JSON does not. */
function yaml(value: unknown): string {
  const text = JSON.stringify(value, undefined, 1);
  return `${text.replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`)}\n`;
}

function metaData({ instanceId, hostname }: SeedFacts): unknown {
  return { "instance-id": instanceId, "local-hostname": hostname };
}

function userData({ hostname, login, dataDisks }: SeedFacts): unknown {
  const user = login.user ?? "root";
  const password = login.password;
  return {
    hostname,
    preserve_hostname: false,
    manage_etc_hosts: "localhost",
    disable_root: user !== "root",
    ssh_pwauth: password !== undefined,
    users: [userEntry(user, login.sshKeys ?? [], password !== undefined)],
    ...(password === undefined ? {} : { chpasswd: { expire: false, list: `${user}:${password}` } }),
    ...writeFiles(login),
    mounts: dataDisks.flatMap(({ serial, fsType, mountPoint }) =>
      fsType === "ext4" && mountPoint
        ? [[`/dev/disk/by-id/virtio-${serial}`, mountPoint, fsType, "defaults,nofail,discard", "0", "2"]]
        : [],
    ),
    bootcmd: [["sh", "-c", runInstaller]],
  };
}

// oxlint-disable-next-line max-params -- name, keys, and whether the password counts
function userEntry(name: string, keys: readonly string[], hasPassword: boolean): unknown {
  const account = { name, lock_passwd: !hasPassword, ssh_authorized_keys: keys.map((key) => key.trim()) };
  return name === "root" ? account : { ...account, shell: "/bin/bash", sudo: "ALL=(ALL) NOPASSWD:ALL" };
}

function writeFiles({ user = "root", password, env = {} }: SeedFacts["login"]): object {
  const files = [...environmentFile(env), ...(password !== undefined && user === "root" ? [rootLogin] : [])];
  return files.length === 0 ? {} : { write_files: files };
}

/** Distributions let root in by key only, whatever `ssh_pwauth` says. */
const rootLogin = {
  path: "/etc/ssh/sshd_config.d/10-cocoon-root.conf",
  content: "PermitRootLogin yes\nPasswordAuthentication yes\n",
};

/** Read at each login; one assignment a line, so a line break inside a value becomes a blank. */
function environmentFile(env: Readonly<Record<string, string>>): readonly object[] {
  const lines = Object.entries(env).map(
    ([key, value]) => `${key}="${value.replace(/[\r\n]+/g, " ").replace(/["\\$`]/g, "\\$&")}"`,
  );
  return lines.length === 0
    ? []
    : [{ path: "/etc/environment", append: true, content: `${lines.join("\n")}\n` }];
}

function networkConfig(nics: readonly GuestNic[]): unknown {
  return {
    version: 2,
    ethernets: Object.fromEntries(nics.map((nic, index) => [`nic${index}`, ethernet(nic)])),
  };
}

function ethernet({ mac, address, dns, searches = [], mtu }: GuestNic): unknown {
  const match = { match: { macaddress: mac.toLowerCase() }, ...(mtu === undefined ? {} : { mtu }) };
  const search = searches.length > 0 ? { search: searches } : {};
  const nameservers = dns.length > 0 ? { nameservers: { addresses: dns, ...search } } : {};
  if (!address) return { ...match, dhcp4: true, "dhcp-identifier": "mac", ...nameservers };
  return {
    ...match,
    addresses: [`${address.ip}/${address.prefix}`],
    ...(address.gateway ? { routes: [defaultRoute(address.gateway, address.prefix)] } : {}),
    ...nameservers,
  };
}

/** Where an address stands alone, its gateway is on no network of its own. */
function defaultRoute(gateway: string, prefix: number): unknown {
  return { to: "0.0.0.0/0", via: gateway, ...(prefix === 32 ? { "on-link": true } : {}) };
}
