/** A process that pushes a machine and is killed by its test: DIRECTORY REGISTRY STORE. */
import { filesOf, fixedCredential, openRegistry, openSnapshotClient } from "@cocoon/oci";
import { testEnvelope } from "@cocoon/oci/testing";

const [directory = "", address = "", store = ""] = process.argv.slice(2);
const password = process.env["TEST_PASSWORD"] ?? "";
const registry = openRegistry({
  address,
  credentials: fixedCredential({ kind: "basic", username: "test", password }),
});
const client = await openSnapshotClient({ threads: 2, store: { directory: store, limitBytes: 1 << 30 } });
const signal = new AbortController().signal;
const source = { envelope: testEnvelope, files: await filesOf(directory) };
process.send?.("begun");
await client.push({
  source,
  repository: registry.repository("vm"),
  tag: "hibernate",
  format: "packed",
  signal,
});
process.send?.("done");
process.disconnect?.();
