/**
 * registry-certificate: runs beside the registry in its pod. Keeps an authority and a serving certificate in a Secret, renews
 * them, and writes the current pair to files, which the registry reads again when they change.
 */
import { mkdir } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { systemNamespace } from "@cocoon/contract";
import {
  aborted,
  abortOnSignals,
  createLogger,
  keepHeapSmall,
  getErrorMessage,
  writeFileAtomically,
} from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import { secretStore, startBuiltInCertificates, type ServingPair } from "@cocoon/kube/certificates";
import { clusterOptions, type CommandSpec } from "../command-spec.ts";

export const command: CommandSpec = {
  usage: "registry-certificate",
  hidden: true,
  options: {
    "--service <name>": ["Service of the registry", "epoch"],
    "--secret <name>": ["Secret that keeps authority and certificate", "epoch-tls"],
    "--once": "write the files and end",
    ...clusterOptions,
  },
  configure: (declared) => declared.requiredOption("--out <directory>", "gets tls.crt and tls.key"),
  run: registryCertificate,
};

export interface RegistryCertificateOptions {
  readonly out: string;
  readonly service: string;
  readonly secret: string;
  readonly once?: boolean;
  readonly namespace?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
}

export async function registryCertificate(options: RegistryCertificateOptions): Promise<void> {
  keepHeapSmall({ giveBack: true });
  const signal = abortOnSignals();
  const log = createLogger({ name: "registry-certificate", level: "info" });
  const { kubeconfig, context, service, namespace = systemNamespace } = options;
  await using client = await openKubeClient({ signal, kubeconfig, context });
  const hosts = [`${service}.${namespace}.svc`, `${service}.${namespace}.svc.cluster.local`, service];
  await using certificates = await startBuiltInCertificates(
    {
      store: secretStore({
        client,
        key: { namespace, name: options.secret },
        labels: { "app.kubernetes.io/name": service, "app.kubernetes.io/part-of": "cocoon" },
      }),
      targets: [],
      names: { commonName: hosts[0] ?? service, hosts },
      replica: process.env["POD_NAME"] ?? hostname(),
      log,
      authorityName: "cocoon registry authority",
      ...(options.once ? {} : { connection: client }),
    },
    { signal },
  );
  await writePair(options.out, certificates.current());
  log.info({ hosts, secret: `${namespace}/${options.secret}` }, "certificate written");
  if (options.once) return;
  let writing = Promise.resolve();
  certificates.onChange((pair) => {
    writing = writing
      .then(() => writePair(options.out, pair))
      .then(
        () => log.info("renewed certificate written"),
        (error: unknown) =>
          log.error({ error: getErrorMessage(error) }, "cannot write the renewed certificate"),
      );
  });
  await aborted(signal);
  await writing;
}

/** The key first: a reader that sees the new certificate finds its key. */
async function writePair(directory: string, { certificate, privateKey }: ServingPair): Promise<void> {
  await mkdir(directory, { recursive: true });
  await writeFileAtomically(join(directory, "tls.key"), privateKey, { mode: 0o600 });
  await writeFileAtomically(join(directory, "tls.crt"), certificate, { mode: 0o644 });
}
