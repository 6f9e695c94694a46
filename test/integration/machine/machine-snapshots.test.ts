/** The snapshots of machines against the registry server that installations run. */
import { machineSnapshotsSuite } from "@cocoon/machine/testing";
import { fixedCredential, openRegistry } from "@cocoon/oci";
import { startRegistry } from "@cocoon/registry";
import { openFakeStorage } from "@cocoon/registry/testing";

machineSnapshotsSuite("our registry", async () => {
  const stack = new AsyncDisposableStack();
  const server = stack.use(await startRegistry({ storage: { kind: "given", storage: openFakeStorage() } }));
  const token = await server.createToken({ name: "test" });
  const credentials = fixedCredential({ kind: "bearer", token });
  const registry = stack.use(openRegistry({ address: server.url, credentials }));
  return { registry, [Symbol.asyncDispose]: () => stack.disposeAsync() };
});
