/** Takes and gives back addresses as fast as it can, until it is killed. Says each address that it was given. */
import { openUserNetwork } from "@cocoon/qemu";

const [directory = "", prefix = ""] = process.argv.slice(2);
const signal = new AbortController().signal;
const network = await openUserNetwork({ directory, subnet: "127.92.0.0/26", firstFreePort: 1024 });
for (let round = 0; ; round += 1) {
  const vmId = `${prefix}${round % 5}`;
  await network.prepare({ vmId, vmName: vmId, cpus: 1, spec: {} }, { signal });
  const address = await network.address(vmId, { signal });
  console.log(`${vmId} ${address?.ip}`);
  if (round % 3 === 0) await network.release(vmId, { signal });
}
