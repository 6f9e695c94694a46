/** The demo image really boots: its own disk, network, keys, console, agent, power button. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { before, test } from "node:test";
import { eventually, runCommand, temporaryDirectory } from "@cocoon/testkit";
import { demoImageName } from "@cocoon/images";
import { openUserNetwork } from "@cocoon/qemu";
import type { BootableImage } from "@cocoon/vm";
import { bootGuest, runIn, testLibrary, testMac } from "./boot-guest.ts";
import { prepareLogin } from "./password-login.ts";

const library = testLibrary();
const signal = AbortSignal.timeout(600_000);
let image: BootableImage;

before(async () => {
  await library.pull(demoImageName, { signal });
  image = await library.resolve(demoImageName, { signal });
});

test("it is about 20 MB and says which packages it is made of", async () => {
  const { sizeBytes } = await library.inspect(demoImageName, { signal });
  assert.ok(sizeBytes > 10e6 && sizeBytes < 24e6, `${sizeBytes} bytes`);
});

test("a machine boots with its name, address and a disk of the size asked for, and stops by its power button", async () => {
  await using guest = await bootGuest({ library, image, signal, storageBytes: 3 * 2 ** 30 });
  await using agent = await guest.openAgent();
  const run = async (script: string) =>
    (await runIn(agent, { argv: ["sh", "-c", script] }, signal)).stdout.trim();
  assert.equal(await run("hostname; cat /etc/hostname"), "guest-one\nguest-one");
  assert.match(await run("cat /etc/machine-id"), /^[0-9a-f]{32}$/);
  assert.match(await run("ip -4 addr show eth0"), /inet 10\.0\.2\.15\/24/);
  assert.match(await run("ip route"), /default via 10\.0\.2\.2/);
  assert.equal(await run("cat /etc/resolv.conf"), "nameserver 10.0.2.3");
  assert.match(await run(`cat /sys/class/net/eth0/address`), new RegExp(testMac));
  const kilobytes = Number(/^\/dev\/vda\s+(\d+)/m.exec(await run("df -k /"))?.[1]);
  assert.ok(kilobytes > 2.8 * 2 ** 20, `the root file system has ${kilobytes} KiB`);
  assert.equal(await run("echo kept > /root/file && sync && cat /root/file"), "kept");
  await guest.qmp("system_powerdown");
  await guest.exited;
  assert.match(await guest.console(), /cocoon: going down/);
});

test("the console is a shell", async () => {
  await using guest = await bootGuest({ library, image, signal });
  await eventually(async () => assert.match(await guest.console(), /guest-one:~#/), { timeoutMs: 120_000 });
  await guest.type("echo sum=$((40 + 2))\n");
  await eventually(async () => assert.match(await guest.console(), /sum=42/), { timeoutMs: 30_000 });
  await guest.type("\u001b[A\n"); // the command before
  await eventually(async () => assert.match(await guest.console(), /sum=42[^]*sum=42/), {
    timeoutMs: 30_000,
  });
  await guest.type("cat /etc/os-rel\t\n");
  await eventually(async () => assert.match(await guest.console(), /ID=cocoon-demo/), { timeoutMs: 30_000 });
  await using agent = await guest.openAgent();
  const { stdout } = await runIn(agent, { argv: ["cat", "/root/.bash_history"] }, signal);
  assert.match(stdout, /^echo sum=.*\necho sum=.*\ncat \/etc\/os-release/m, "the history is on disk");
});

test("wget takes a time limit and does not crash", async () => {
  await using guest = await bootGuest({ library, image, signal });
  await using agent = await guest.openAgent();
  const run = (script: string) => runIn(agent, { argv: ["sh", "-c", script] }, signal);
  await run("mkdir /tmp/www && echo served > /tmp/www/file; nc -ll -p 81 -e sleep 60 >/dev/null 2>&1 &");
  for (const words of ["-T 30 -qO -", "-qT30 -O -", "-qO - --timeout=30", "-q -O -"]) {
    const script = `httpd -p 127.0.0.1:80 -h /tmp/www 2>/dev/null; wget ${words} http://127.0.0.1/file`;
    const { stdout, code } = await run(script);
    assert.deepEqual([stdout, code], ["served\n", 0], words);
  }
  for (const command of ["wget", "busybox wget"]) {
    const silent = await run(`${command} -T 2 -O - http://127.0.0.1:81/ 2>&1`);
    assert.equal(silent.code, 1, command);
    assert.match(silent.stdout, /download timed out/);
  }
  assert.equal((await run("busybox echo same")).stdout, "same\n");
});

test("SSH accepts the given key and no other", async (t) => {
  await using directory = await temporaryDirectory();
  const network = await openUserNetwork({ directory: join(directory.path, "net"), firstFreePort: 1024 });
  const [plan] = await network.prepare({ vmId: "SSHTEST", vmName: "ssh", cpus: 1, spec: {} }, t);
  assert.ok(plan);
  const key = await newKey(directory.path, "known");
  const stranger = await newKey(directory.path, "stranger");
  const options = { library, image, signal, netdev: plan.netdev, mac: plan.nic.mac };
  await using _guest = await bootGuest({
    ...options,
    facts: { login: { sshKeys: [key.public] }, nics: [plan.guest] },
  });
  const [forward] = plan.nic.forwards;
  assert.ok(forward && forward.hostPort >= 1024 && forward.guestPort === 22);
  const settings = [
    "BatchMode=yes",
    "StrictHostKeyChecking=no",
    "UserKnownHostsFile=/dev/null",
    "LogLevel=ERROR",
  ];
  const ssh = (identity: string, script: string) =>
    runCommand(
      "ssh",
      [
        ["-i", identity, "-p", String(forward.hostPort), `root@${forward.hostAddress}`],
        settings.flatMap((each) => ["-o", each]),
        [script],
      ].flat(),
    );
  await eventually(async () => assert.equal((await ssh(key.path, "hostname")).stdout, "guest-one\n"), {
    timeoutMs: 120_000,
    intervalMs: 500,
  });
  const refused = await ssh(stranger.path, "hostname");
  assert.notEqual(refused.code, 0);
  assert.match(refused.stderr, /Permission denied \(publickey\)/, "passwords are not even offered");
});

test("SSH takes the password that the machine was given, and no other", async (t) => {
  await using directory = await temporaryDirectory();
  const network = await openUserNetwork({ directory: join(directory.path, "net"), firstFreePort: 1024 });
  const [plan] = await network.prepare({ vmId: "PASSTEST", vmName: "pass", cpus: 1, spec: {} }, t);
  assert.ok(plan);
  const options = { library, image, signal, netdev: plan.netdev, mac: plan.nic.mac };
  await using _guest = await bootGuest({
    ...options,
    facts: { login: { password: "cocoon" }, nics: [plan.guest] },
  });
  const [forward] = plan.nic.forwards;
  assert.ok(forward);
  const logIn = await prepareLogin(directory.path, forward);
  await eventually(async () => assert.equal((await logIn("cocoon")).stdout, "guest-one\n"), {
    timeoutMs: 120_000,
    intervalMs: 500,
  });
  const refused = await logIn("wrong");
  assert.notEqual(refused.code, 0);
  assert.match(refused.stderr, /Permission denied \(publickey,password\)/);
});

async function newKey(directory: string, name: string): Promise<{ path: string; public: string }> {
  const path = join(directory, name);
  const made = await runCommand("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", path]);
  assert.equal(made.code, 0, made.stderr);
  return { path, public: (await runCommand("cat", [`${path}.pub`])).stdout };
}
