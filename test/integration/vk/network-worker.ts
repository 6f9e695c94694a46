/** Opens the networks that the environment names, connects one VM to each, and says what came of it. */
import assert from "node:assert/strict";
import { readConfig } from "@cocoon/core";
import { vkProgram } from "../../../packages/vk/src/config.ts";
import { openNetworks } from "../../../packages/vk/src/networks.ts";

const { signal } = new AbortController();
const read = readConfig(vkProgram, { argv: [], env: process.env });
assert.ok(read.kind === "config");
const networks = await openNetworks(read.config, { signal });
const plans: Record<string, unknown> = {};
for (const [name, network] of networks) {
  const vm = { vmId: `VM${name.toUpperCase().padEnd(8, "0")}`, vmName: `vk-${name}`, cpus: 1, spec: {} };
  const [plan] = await network.prepare(vm, { signal });
  plans[name] = { netdev: plan?.netdev, nic: plan?.nic, guest: plan?.guest };
}
process.stdout.write(`${JSON.stringify({ networks: [...networks.keys()], plans })}\n`);
