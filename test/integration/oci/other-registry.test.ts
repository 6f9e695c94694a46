/** Our client and our snapshots in a registry that is not ours. */
import { join } from "node:path";
import { describe, it } from "node:test";
import { fixedCredential, openRegistry, openSnapshotClient, snapshotFormats } from "@cocoon/oci";
import { assertMachine, readMachine, makeMachine, registrySuite, runMachine } from "@cocoon/oci/testing";
import { seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";
import { startDistributionServer } from "../../peers/distribution-server.ts";

async function open() {
  const server = await startDistributionServer();
  const { url: address, username, password } = server;
  const credentials = fixedCredential({ kind: "basic", username, password });
  return { address, credentials, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() };
}

registrySuite("distribution", open);

describe("snapshots in the reference registry", () => {
  for (const format of snapshotFormats)
    it(`sleep and wake: ${format}`, async ({ signal }) => {
      await using server = await open();
      await using registry = openRegistry(server);
      await using directory = await temporaryDirectory();
      const repository = registry.repository("vk-default-demo-0");
      const random = seededRandom(testSeed());
      const node = (name: string) =>
        openSnapshotClient({
          threads: 2,
          store: { directory: join(directory.path, name), limitBytes: 1 << 30 },
        });
      await using here = await node("here");
      await using there = await node("there");
      const vm = join(directory.path, "vm");
      let source = await makeMachine(vm, random);
      for (let night = 0; night < 2; night += 1) {
        const { digest } = await here.push({ source, repository, tag: "hibernate", format, signal });
        const back = join(directory.path, `back-${night}`);
        await there.pull({ repository, reference: digest, directory: back, signal });
        await assertMachine(back, await readMachine(vm));
        source = await runMachine(vm, random);
      }
    });
});
