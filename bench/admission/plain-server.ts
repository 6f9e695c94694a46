/**
 * The plain approach, for comparison: every pod reads the pool's ConfigMap, adds its entry, writes the whole object, and
 * starts over when another writer was faster. No limit on the client's rate, no limit on the attempts.
 */
import { join } from "node:path";
import { createLogger, createRegistry, isFault } from "@cocoon/core";
import { configMaps, openKubeClient, type ConfigMap } from "@cocoon/kube";
import { allowWithPatch, startAdmissionServer, type AdmissionHandler } from "@cocoon/kube/admission";
import { startFileCertificates } from "@cocoon/kube/certificates";
import { readReplica } from "./reviews.ts";

const [port, directory = "", kubeconfig = ""] = process.argv.slice(2);
const log = createLogger({ name: "plain", level: "warn" });
const signal = new AbortController().signal;
const client = await openKubeClient({ kubeconfig, signal });
const certificates = await startFileCertificates({
  certificateFile: join(directory, "tls.crt"),
  keyFile: join(directory, "tls.key"),
  log,
});

const reserve: AdmissionHandler = async (request, { signal }) => {
  const { pool, deployment, namespace } = readReplica(request);
  const key = { namespace: "cocoon-system", name: `plain-${pool}` };
  for (;;) {
    const found = await client.get(configMaps, key, { signal }).catch((error: unknown) => {
      if (isFault(error, "notFound")) return undefined;
      throw error;
    });
    const data = { ...found?.data };
    let slot = 0;
    while (`${namespace}.${deployment}.${slot}` in data) slot += 1;
    const vmName = `vk-${namespace}-${deployment}-${slot}`;
    const entry = { pool, namespace, deployment, slot, vmName, pod: "", node: "", updatedAt: new Date() };
    data[`${namespace}.${deployment}.${slot}`] = JSON.stringify(entry);
    const object: ConfigMap = { metadata: found?.metadata ?? key, data };
    try {
      await (found
        ? client.update(configMaps, object, { signal })
        : client.create(configMaps, object, { signal }));
    } catch (error) {
      if (isFault(error, "conflict") || isFault(error, "alreadyExists")) continue;
      throw error;
    }
    const path = "/metadata/annotations/vm.cocoonstack.io~1name";
    return allowWithPatch([
      { op: "add", path: "/metadata/annotations", value: {} },
      { op: "add", path, value: vmName },
    ]);
  }
};

await startAdmissionServer({
  host: "127.0.0.1",
  port: Number(port),
  certificates,
  log,
  registry: createRegistry("plain"),
  time: { maxTimeoutMs: 30_000, share: 1 },
  endpoints: { "/mutate": { name: "plain", handler: reserve } },
});
