/** A Debian as others publish it: boot loader, systemd, cloud-init, sshd. What the small demo image cannot show. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { before, test } from "node:test";
import { eventually, fullTierOnly, temporaryDirectory } from "@cocoon/testkit";
import { debianImageName } from "@cocoon/images";
import { openUserNetwork } from "@cocoon/qemu";
import type { BootableImage } from "@cocoon/vm";
import { bootGuest, runIn, testLibrary } from "./boot-guest.ts";
import { prepareLogin } from "./password-login.ts";

const library = testLibrary();
const signal = AbortSignal.timeout(1_800_000);
let image: BootableImage;

const { skip } = fullTierOnly("builds and boots a whole Debian");

before(async () => {
  if (skip) return;
  await library.pull(debianImageName, { signal });
  image = await library.resolve(debianImageName, { signal });
});

test(
  "systemd and cloud-init take the seed: name, key, password, environment, network, a grown disk",
  { skip },
  async () => {
    assert.equal(image.kernel, undefined, "it boots by its own boot loader");
    await using directory = await temporaryDirectory();
    const network = await openUserNetwork({ directory: join(directory.path, "net"), firstFreePort: 1024 });
    const [plan] = await network.prepare(
      { vmId: "DEBIANTEST", vmName: "debian", cpus: 1, spec: {} },
      { signal },
    );
    const [forward] = plan?.nic.forwards ?? [];
    assert.ok(plan && forward);
    const sshKeys = ["ssh-ed25519 AAAATEST me"];
    await using guest = await bootGuest({
      library,
      image,
      signal,
      memoryMiB: 512,
      storageBytes: 3 * 2 ** 30,
      netdev: plan.netdev,
      mac: plan.nic.mac,
      facts: {
        login: { sshKeys, password: "cocoon", env: { GREETING: 'say "hi"' } },
        nics: [plan.guest],
      },
    });
    await using agent = await guest.openAgent();
    const run = async (script: string) =>
      (await runIn(agent, { argv: ["sh", "-c", script] }, signal)).stdout.trim();
    // The agent answers long before cloud-init is through. Its own command would start Python once more to tell.
    await eventually(
      async () => assert.match(await run("cat /run/cloud-init/result.json"), /"errors": \[\]/),
      {
        timeoutMs: 1_200_000,
        intervalMs: 2_000,
        signal,
      },
    );
    assert.equal(await run("hostname"), "guest-one");
    assert.match(await run("cat /etc/machine-id"), /^[0-9a-f]{32}$/);
    assert.match(await run("cat /root/.ssh/authorized_keys"), /AAAATEST/);
    assert.equal(await run("grep GREETING /etc/environment"), 'GREETING="say \\"hi\\""');
    const { address } = plan.guest;
    assert.ok(address);
    assert.ok((await run("ip -4 addr show eth0")).includes(`inet ${address.ip}/${address.prefix}`));
    assert.ok((await run("ip route")).includes(`default via ${address.gateway}`));
    assert.equal(await run("systemctl is-active ssh cocoon-agent"), "active\nactive");
    const kilobytes = Number(/(\d+)\s+\d+\s+\d+\s+\d+% \/$/m.exec(await run("df -k /"))?.[1]);
    assert.ok(kilobytes > 2.7 * 2 ** 20, `the root file system has ${kilobytes} KiB`);
    const logIn = await prepareLogin(directory.path, forward);
    await eventually(async () => assert.equal((await logIn("cocoon")).stdout, "guest-one\n"), {
      timeoutMs: 300_000,
      intervalMs: 2_000,
      signal,
    });
    const refused = await logIn("wrong");
    assert.match(refused.stderr, /Permission denied/);
    await agent.request({ t: "shutdown", mode: "poweroff" }, { signal });
    await guest.exited;
  },
);
