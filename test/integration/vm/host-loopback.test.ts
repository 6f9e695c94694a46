/** Guests on the user network do not reach the host they run on, unless its owner allows it (issue 18, item 22). */
import assert from "node:assert/strict";
import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import type { Vm, VmRuntime } from "@cocoon/vm";
import { openQemuHarness } from "./qemu-harness.ts";

const { signal } = new AbortController();
const ready = () => AbortSignal.timeout(300_000);

/** A service on every address of the host: what a control plane, a registry or a metrics port is to a guest. */
async function startService(): Promise<AsyncDisposable & { port: number; datagrams: () => number }> {
  let datagrams = 0;
  const server = createServer((socket) => socket.on("error", () => undefined).end("from the host\n"));
  server.listen(0, "0.0.0.0");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const udp = createSocket("udp4", () => (datagrams += 1));
  udp.bind(port, "0.0.0.0");
  await once(udp, "listening");
  return {
    port,
    datagrams: () => datagrams,
    [Symbol.asyncDispose]: async () => {
      udp.close();
      server.close();
      await once(server, "close");
    },
  };
}

function hostAddresses(): string[] {
  const own = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const outside = own.filter(({ family, internal }) => family === "IPv4" && !internal);
  return ["10.0.2.2", ...outside.map(({ address }) => address)];
}

async function run(runtime: VmRuntime, vm: Vm, script: string): Promise<string> {
  await using program = await runtime.exec(vm.id, { argv: ["sh", "-c", script] }, { signal });
  return (await program.stdout.toArray()).join("").trim();
}

async function tryAll(runtime: VmRuntime, vm: Vm, port: number): Promise<string[]> {
  const answers: string[] = [];
  for (const address of hostAddresses()) {
    const tcp = `nc -w 5 ${address} ${port} </dev/null 2>/dev/null || echo nothing`;
    answers.push(`${address}: ${(await run(runtime, vm, tcp)) || "nothing"}`);
    await run(runtime, vm, `echo hello | nc -u -w 1 ${address} ${port} 2>/dev/null || true`);
  }
  return answers;
}

test("a guest reaches no service of its host, by none of its addresses", { timeout: 900_000 }, async () => {
  await using harness = await openQemuHarness({ signal });
  await using service = await startService();
  const { runtime } = harness;
  const vm = await runtime.run({ name: "curious", image: harness.image, ...harness.small }, { signal });
  await runtime.waitReady(vm.id, { signal: ready() });
  const nothing = hostAddresses().map((address) => `${address}: nothing`);
  assert.deepEqual(await tryAll(runtime, vm, service.port), nothing);
  assert.equal(service.datagrams(), 0);
  const clone = await runtime.fork({ name: "curious-clone", source: vm.id }, { signal });
  await runtime.waitReady(clone.id, { signal: ready() });
  assert.deepEqual(await tryAll(runtime, clone, service.port), nothing);
  // The other direction is what forwards are for.
  await run(runtime, vm, "mkdir -p /srv && echo inside > /srv/name && httpd -p 8080 -h /srv");
  const connection = await runtime.dial(vm.id, 8080, { signal });
  connection.write("GET /name HTTP/1.0\r\n\r\n");
  assert.match(await text(connection), /inside/);
  connection.destroy();
});

test("the host's owner may allow it", { timeout: 900_000 }, async () => {
  await using harness = await openQemuHarness({ signal, allowHostLoopback: true });
  await using service = await startService();
  const { runtime } = harness;
  const vm = await runtime.run({ name: "trusted", image: harness.image, ...harness.small }, { signal });
  await runtime.waitReady(vm.id, { signal: ready() });
  const [first] = await tryAll(runtime, vm, service.port);
  assert.equal(first, "10.0.2.2: from the host");
});
