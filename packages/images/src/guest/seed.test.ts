import assert from "node:assert/strict";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Fault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import type { SeedFacts } from "@cocoon/vm";
import { cloudInitFiles } from "./cloud-init.ts";
import { hashPassword } from "./password-hash.ts";
import { computeMachineId, machineSettings, nicLine, writeSeedDisk } from "./seed.ts";

const facts: SeedFacts = {
  instanceId: "ABC",
  hostname: "vm-one",
  login: { sshKeys: ["ssh-ed25519 AAAA me\n"], env: { GREETING: "two\nlines" } },
  nics: [
    {
      mac: "02:00:00:00:00:01",
      address: { ip: "10.0.2.15", prefix: 24, gateway: "10.0.2.2" },
      dns: ["10.0.2.3", "10.0.2.4"],
    },
    { mac: "02:00:00:00:00:02", dns: [] },
  ],
  dataDisks: [
    { serial: "data1", fsType: "ext4", mountPoint: "/mnt/data1" },
    { serial: "data2", fsType: "none" },
  ],
};
const program = {
  argv: ["/bin/app", "--x"],
  env: ["PATH=/bin", "A=b=c"],
  user: "app:staff",
  workingDirectory: "/srv",
};

test("our init gets one record per fact, in order", () => {
  const records = machineSettings(facts, program).toString().split("\0");
  assert.deepEqual(records, [
    "instance-id=ABC",
    `machine-id=${computeMachineId("ABC")}`,
    "hostname=vm-one",
    "nic=02:00:00:00:00:01 10.0.2.15/24 10.0.2.2 10.0.2.3,10.0.2.4",
    "nic=02:00:00:00:00:02 dhcp - -",
    "ssh-key=ssh-ed25519 AAAA me",
    "arg=/bin/app",
    "arg=--x",
    "env=PATH=/bin",
    "env=A=b=c",
    "env=GREETING=two\nlines",
    "user=app:staff",
    "cwd=/srv",
    "mount=data1 /mnt/data1",
    "",
  ]);
});

test("an image whose entrypoint is an init gets process 1", () => {
  for (const [first, wanted] of [
    ["/sbin/init", true],
    ["/lib/systemd/systemd", true],
    ["/bin/initialise", false],
  ] as const) {
    const text = machineSettings(facts, { ...program, argv: [first] }).toString();
    assert.equal(text.includes("\0init=1\0"), wanted, first);
  }
});

test("a zero byte in a value is refused: it would begin another record", () => {
  assert.throws(
    () => machineSettings({ ...facts, hostname: "a\0ssh-key=evil" }, program),
    (error) => error instanceof Fault && /hostname/.test(error.message),
  );
});

test("machine ids differ between instances and are stable", () => {
  assert.match(computeMachineId("a"), /^[0-9a-f]{32}$/);
  assert.equal(computeMachineId("a"), computeMachineId("a"));
  assert.notEqual(computeMachineId("a"), computeMachineId("b"));
});

test("an interface without a gateway or name servers says so", () => {
  assert.equal(
    nicLine({ mac: "02:00:00:00:00:03", address: { ip: "10.0.3.15", prefix: 24 }, dns: [] }),
    "02:00:00:00:00:03 10.0.3.15/24 - -",
  );
});

function cloudConfig(given: SeedFacts): Record<string, unknown> {
  const text = Buffer.from(cloudInitFiles(given, Buffer.from("agent"))["user-data"] ?? "").toString();
  assert.ok(text.startsWith("#cloud-config\n"));
  return JSON.parse(text.slice("#cloud-config\n".length)) as Record<string, unknown>;
}

test("cloud-init gets name, keys, environment, disks and addresses", () => {
  const files = cloudInitFiles(facts, Buffer.from("agent"));
  const read = (name: string): unknown => JSON.parse(Buffer.from(files[name] ?? "").toString());
  assert.deepEqual(read("meta-data"), { "instance-id": "ABC", "local-hostname": "vm-one" });
  assert.deepEqual(read("network-config"), {
    version: 2,
    ethernets: {
      nic0: {
        match: { macaddress: "02:00:00:00:00:01" },
        addresses: ["10.0.2.15/24"],
        routes: [{ to: "0.0.0.0/0", via: "10.0.2.2" }],
        nameservers: { addresses: ["10.0.2.3", "10.0.2.4"] },
      },
      nic1: { match: { macaddress: "02:00:00:00:00:02" }, dhcp4: true, "dhcp-identifier": "mac" },
    },
  });
  const config = cloudConfig(facts);
  assert.equal(config["ssh_pwauth"], false);
  assert.deepEqual(config["users"], [
    { name: "root", lock_passwd: true, ssh_authorized_keys: ["ssh-ed25519 AAAA me"] },
  ]);
  assert.deepEqual(config["mounts"], [
    ["/dev/disk/by-id/virtio-data1", "/mnt/data1", "ext4", "defaults,nofail,discard", "0", "2"],
  ]);
  assert.deepEqual(config["write_files"], [
    { path: "/etc/environment", append: true, content: 'GREETING="two lines"\n' },
  ]);
});

test("a password opens the door for passwords, and only then", () => {
  const config = cloudConfig({ ...facts, login: { user: "dev", password: "s3cret" } });
  assert.equal(config["ssh_pwauth"], true);
  assert.deepEqual(config["chpasswd"], { expire: false, list: "dev:s3cret" });
  assert.equal(config["disable_root"], true);
  assert.ok(!("chpasswd" in cloudConfig(facts)));
});

test("root logs in by password where there is one: sshd is configured so", () => {
  const config = cloudConfig({ ...facts, login: { password: "s3cret" } });
  assert.deepEqual(config["write_files"], [
    {
      path: "/etc/ssh/sshd_config.d/10-cocoon-root.conf",
      content: "PermitRootLogin yes\nPasswordAuthentication yes\n",
    },
  ]);
});

test("our own guests get a hash, never the password", () => {
  const text = machineSettings({ ...facts, login: { password: "s3cret" } }, program).toString();
  assert.match(text, /\0password-hash=\$6\$[./A-Za-z0-9]{16}\$[./A-Za-z0-9]{86}\0/);
  assert.doesNotMatch(text, /s3cret/);
  assert.doesNotMatch(machineSettings(facts, program).toString(), /password/);
});

test("the hash is the one that crypt(3) makes", () => {
  assert.equal(
    hashPassword("Hello world!", "saltstring"),
    "$6$saltstring$svn8UoSVapNtMuq1ukKS4tPQd8iKwSMHWjl/O817G3uBnIFNjnQJuesI68u4OTLiBFdcbYEdFCoEOfaS35inz1",
  );
});

test("characters that YAML takes for line breaks are escaped", () => {
  const text = Buffer.from(
    cloudInitFiles({ ...facts, hostname: "a\u2028b\u0085c" }, Buffer.from(""))["meta-data"] ?? "",
  ).toString();
  assert.ok(text.includes("a\\u2028b\\u0085c"), text);
});

test("the seed disk is the owner's alone, and never replaces another file", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "seed.img");
  await writeSeedDisk(path, facts, { kind: "cocoon", program });
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  assert.ok((await readFile(path)).includes("hostname=vm-one\0"));
  await assert.rejects(writeSeedDisk(path, facts, { kind: "cocoon", program }), { code: "EEXIST" });
});
