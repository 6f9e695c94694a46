/**
 * The colocation endpoints over a large cluster in memory: 50 profiles, of which five match, and 500 quotas.
 *
 *   server.ts PORT DIRECTORY      with tls.crt and tls.key there
 */
import { keepHeapSmall, silentLogger } from "@cocoon/core";
import { startFileCertificates } from "@cocoon/kube/certificates";
import { startTestWebhooks, type ClusterObjects } from "@cocoon/colocation/testing";
import { join } from "node:path";

const [port, directory = ""] = process.argv.slice(2);
keepHeapSmall(); // as every program does
const certificates = await startFileCertificates({
  certificateFile: join(directory, "tls.crt"),
  keyFile: join(directory, "tls.key"),
  log: silentLogger,
});
await startTestWebhooks({ ...world(), server: { host: "127.0.0.1", port: Number(port), certificates } });

function world(): ClusterObjects {
  const key = (name: string) => `quota.scheduling.koordinator.sh/${name}`;
  return {
    namespaces: { shop: { team: "web" } },
    profiles: Array.from({ length: 50 }, (_, index) => ({
      metadata: { name: `profile-${String(index).padStart(2, "0")}` },
      spec: {
        namespaceSelector: { matchLabels: { team: index % 2 === 0 ? "web" : "data" } },
        selector: { matchLabels: index < 10 ? { app: "web" } : { app: `other-${index}` } },
        labels: { [`label-${index}`]: "x" },
        annotations: { note: String(index) },
        ...(index === 0
          ? { qosClass: "BE", priorityClassName: "koord-batch", schedulerName: "koord-scheduler" }
          : {}),
        ...(index === 2 ? { patch: { spec: { nodeSelector: { pool: "a" } } } } : {}),
      },
    })),
    quotas: Array.from({ length: 500 }, (_, index) => ({
      metadata: {
        name: `quota-${index}`,
        namespace: "quotas",
        labels: {
          [key("parent")]: index < 20 ? "koordinator-root-quota" : `quota-${index % 20}`,
          [key("is-parent")]: String(index < 20),
        },
        annotations: index === 499 ? { [key("namespaces")]: '["shop"]' } : {},
      },
      spec: { min: { cpu: "1", memory: "1Gi" }, max: { cpu: "100", memory: "100Gi" } },
    })),
  };
}
