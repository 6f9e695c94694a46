/** Run by tests as a process of its own: pushes a machine and may be killed meanwhile. DIRECTORY REGISTRY STORE */
import { fixedCredential } from "../registry/credentials.ts";
import { openRegistry } from "../registry/registry.ts";
import { openSnapshotClient } from "../snapshot/snapshot-client.ts";
import { listSourceFiles } from "../snapshot/source.ts";
import { testEnvelope } from "./machine.ts";

const [directory = "", address = "", store = ""] = process.argv.slice(2);
const password = process.env["TEST_PASSWORD"] ?? "";
const credentials = fixedCredential({ kind: "basic", username: "test", password });
await using registry = openRegistry({ address, credentials });
await using client = await openSnapshotClient({
  threads: 2,
  store: { directory: store, limitBytes: 1 << 30 },
});
const signal = new AbortController().signal;
const source = { envelope: testEnvelope, files: await listSourceFiles(directory) };
process.send?.("begun");
await client.push({
  source,
  repository: registry.repository("vm"),
  tag: "hibernate",
  format: "packed",
  signal,
});
process.disconnect?.();
