/** Our side of the comparison: what echo-webhook does, on our admission server, with metrics and logs on as in an app. */
import { createLogger, createRegistry } from "@cocoon/core";
import { allowWithPatch, startAdmissionServer } from "@cocoon/kube/admission";
import { startFileCertificates } from "@cocoon/kube/certificates";
import { join } from "node:path";

export async function serveEcho(port: number, certificateDirectory: string): Promise<void> {
  const log = createLogger({ name: "echo", level: "warn" });
  const certificates = await startFileCertificates({
    certificateFile: join(certificateDirectory, "tls.crt"),
    keyFile: join(certificateDirectory, "tls.key"),
    log,
  });
  await startAdmissionServer({
    host: "127.0.0.1",
    port,
    certificates,
    log,
    registry: createRegistry("echo"),
    endpoints: {
      "/mutate": {
        name: "echo",
        handler: async () => allowWithPatch([{ op: "add", path: "/metadata/labels/seen", value: "yes" }]),
      },
    },
  });
}
