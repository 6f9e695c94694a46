import assert from "node:assert/strict";
import { test } from "node:test";
import { readBridgeSettings } from "./bridge-settings.ts";
import { removeRules, writeRules } from "./bridge-rules.ts";

test("the rules of a bridge with one open and one isolated VM", () => {
  const text = writeRules({
    bridge: "cni0",
    subnet: "10.88.0.0/24",
    denied: ["172.22.0.0/16"],
    ports: [
      { tap: "btAAAA-0", mac: "02:00:00:00:00:01", ip: "10.88.0.2", isolated: false },
      { tap: "btBBBB-0", mac: "02:00:00:00:00:02", ip: "10.88.0.3", isolated: true },
    ],
  });
  assert.equal(
    text,
    `add table ip cocoon_cni0
delete table ip cocoon_cni0
table ip cocoon_cni0 {
  set isolated {
    type ipv4_addr
    elements = { 10.88.0.3 }
  }
  chain postrouting {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr 10.88.0.0/24 oifname != "cni0" masquerade
  }
  chain forward {
    type filter hook forward priority filter; policy accept;
    ct state established,related accept
    iifname "cni0" ip daddr { 172.22.0.0/16 } drop
    iifname "cni0" ip saddr @isolated drop
  }
  chain input {
    type filter hook input priority filter; policy accept;
    iifname "cni0" udp dport 67 accept
    ct state established,related accept
    iifname "cni0" ip saddr @isolated drop
  }
}
add table bridge cocoon_cni0
delete table bridge cocoon_cni0
table bridge cocoon_cni0 {
  set taps {
    type ifname
    elements = { "btAAAA-0", "btBBBB-0" }
  }
  set macs {
    type ifname . ether_addr
    elements = { "btAAAA-0" . 02:00:00:00:00:01, "btBBBB-0" . 02:00:00:00:00:02 }
  }
  set addresses {
    type ifname . ipv4_addr
    elements = { "btAAAA-0" . 10.88.0.2, "btAAAA-0" . 0.0.0.0, "btBBBB-0" . 10.88.0.3, "btBBBB-0" . 0.0.0.0 }
  }
  chain prerouting {
    type filter hook prerouting priority filter; policy accept;
    iifname != @taps accept
    iifname . ether saddr != @macs drop
    ether type arp iifname . arp saddr ip != @addresses drop
    ether type ip iifname . ip saddr != @addresses drop
    ether type { ip, arp } accept
    drop
  }
}
`,
  );
});

test("removing names our two tables and nothing else", () => {
  assert.equal(
    removeRules("br-x"),
    "add table ip cocoon_br_x\ndelete table ip cocoon_br_x\nadd table bridge cocoon_br_x\ndelete table bridge cocoon_br_x",
  );
});

test("settings have defaults, and what is wrong with them is said", () => {
  const settings = readBridgeSettings({ directory: "/d", denied: ["10.1.2.3/8", "1.1.1.1"] });
  assert.deepEqual(
    [settings.bridge, settings.subnet, settings.gateway, settings.mask],
    ["cni0", "10.88.0.0/24", "10.88.0.1", "255.255.255.0"],
  );
  assert.deepEqual(settings.denied, ["10.1.2.3/8", "1.1.1.1/32"]);
  for (const [wrong, message] of [
    [{ bridge: "a name with blanks" }, /no name for a bridge/],
    [{ bridge: "sixteen-letters-x" }, /no name for a bridge/],
    [{ gateway: "10.99.0.1" }, /no host address/],
    [{ gateway: "10.88.0.255" }, /no host address/],
    [{ denied: ["10.0.0.0/8; flush ruleset"] }, /could be denied/],
    [{ dns: ["dns.example"] }, /no IPv4 address/],
  ] as const) {
    assert.throws(() => readBridgeSettings({ directory: "/d", ...wrong }), message);
  }
});
