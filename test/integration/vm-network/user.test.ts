/** The user network with real guests: each at its own address, cut off when asked. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { before, test } from "node:test";
import { eventually, temporaryDirectory } from "@cocoon/testkit";
import { demoImageName } from "@cocoon/images";
import { openUserNetwork } from "@cocoon/qemu";
import type { BootableImage } from "@cocoon/vm";
import { bootGuest, testLibrary } from "../vm-images/boot-guest.ts";

const library = testLibrary();
const signal = AbortSignal.timeout(600_000);
const options = { signal };
let image: BootableImage;

before(async () => {
  await library.pull(demoImageName, options);
  image = await library.resolve(demoImageName, options);
});

async function fetchText(host: string, port: number): Promise<string> {
  const response = await fetch(`http://${host}:${port}/name`, { signal: AbortSignal.timeout(10_000) });
  return response.text();
}

test("two guests answer at their own addresses, and only the open one reaches the host", async () => {
  await using directory = await temporaryDirectory();
  const server = createServer((socket) => socket.end("from the host\n")).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  try {
    const network = await openUserNetwork({ directory: directory.path, firstFreePort: 1024 });
    const request = (vmId: string, isolated: boolean) => ({
      vmId,
      vmName: vmId,
      cpus: 1,
      spec: { isolated, ports: [{ protocol: "tcp", guestPort: 80 } as const] },
    });
    const boot = async (vmId: string, isolated: boolean) => {
      const [plan] = await network.prepare(request(vmId, isolated), options);
      assert.ok(plan);
      const { netdev, nic, guest } = plan;
      return bootGuest({
        library,
        image,
        signal,
        netdev,
        mac: nic.mac,
        facts: { hostname: vmId, nics: [guest] },
      });
    };
    await using open = await boot("open", false);
    await using closed = await boot("closed", true);
    for (const [vmId, guest] of [
      ["open", open],
      ["closed", closed],
    ] as const) {
      await guest.run(["sh", "-c", "mkdir -p /srv && hostname > /srv/name && httpd -p 80 -h /srv"]);
      const address = await network.address(vmId, options);
      const forward = address?.forwards.find(({ guestPort }) => guestPort === 80);
      assert.ok(forward && forward.hostPort === 20_080 && forward.hostAddress === address?.ip);
      await eventually(async () =>
        assert.equal(await fetchText(forward.hostAddress, forward.hostPort), `${vmId}\n`),
      );
    }
    const script = (seconds: number) => `nc -w ${seconds} 10.0.2.2 ${port} </dev/null || echo nothing`;
    assert.equal((await open.run(["sh", "-c", script(30)])).stdout, "from the host\n");
    assert.equal((await closed.run(["sh", "-c", script(5)])).stdout, "nothing\n");
  } finally {
    server.close();
  }
});
