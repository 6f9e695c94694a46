import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { FakeHost, FakeRuntime } from "@cocoon/vm/testing";
import { withLeases } from "./leases.ts";

const { signal } = new AbortController();
const options = { signal };

test("a lease file that was named is asked first, the usual ones last, and a leased address is dialled", async () => {
  await using directory = await temporaryDirectory();
  const [named, usual] = [join(directory.path, "named"), join(directory.path, "usual.json")];
  const engine = new FakeRuntime(new FakeHost({ directory: join(directory.path, "snapshots") }));
  const vm = await engine.run({ name: "vk-a", image: "demo" }, options);
  const mac = vm.nics[0]?.mac ?? "";
  const own = await engine.address(vm.id, options);
  const runtime = withLeases(engine, { named, usual: [usual] });
  assert.deepEqual(await runtime.address(vm.id, options), own, "no file yet: what the engine says");
  await writeFile(usual, JSON.stringify([{ mac, ip: "10.0.0.9", expiry: "2030-01-01T00:00:00Z" }]));
  assert.deepEqual(await runtime.address(vm.id, options), own, "the engine knows it");
  await writeFile(named, `1893456000 ${mac} 127.0.0.1 vk-a *\n`);
  assert.deepEqual(await runtime.address(vm.id, options), { ip: "127.0.0.1", routable: true, forwards: [] });

  const server = createServer((socket) => socket.end("from the guest")).listen(0, "127.0.0.1");
  await once(server, "listening");
  const connection = await runtime.dial(vm.id, (server.address() as AddressInfo).port, options);
  assert.equal(Buffer.concat(await connection.toArray()).toString(), "from the guest");
  server.close();
  assert.equal((await runtime.inspect("vk-a", options)).id, vm.id, "everything else is the engine's");
});
