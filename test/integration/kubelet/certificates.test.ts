/** A kubelet's serving certificate that is renewed in its file is served to new connections without a restart. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { connect } from "node:tls";
import { createAuthority, issueCertificate } from "@cocoon/controlplane";
import { silentLogger } from "@cocoon/core";
import { startFileCertificates, tlsPair } from "@cocoon/kube/certificates";
import { startKubeletApi } from "@cocoon/kubelet";
import { eventually, temporaryDirectory } from "@cocoon/testkit";
import { ShellProvider } from "./shell-provider.ts";

async function servedName(port: number): Promise<string> {
  const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const { subject } = socket.getPeerCertificate();
  socket.destroy();
  return String(subject.CN);
}

test("a renewed certificate is served to new connections", async () => {
  await using directory = await temporaryDirectory();
  const authority = await createAuthority("kubelets");
  const [certificateFile, keyFile] = [join(directory.path, "tls.crt"), join(directory.path, "tls.key")];
  const write = async (commonName: string) => {
    const pair = await issueCertificate(authority, { commonName, usage: "server", hosts: ["127.0.0.1"] });
    for (const [file, text] of [
      [keyFile, pair.key],
      [certificateFile, pair.certificate],
    ] as const) {
      await writeFile(`${file}.new`, text);
      await rename(`${file}.new`, file);
    }
  };
  await write("first");
  await using certificates = await startFileCertificates({
    certificateFile,
    keyFile,
    log: silentLogger,
    pollMs: 50,
  });
  await using server = await startKubeletApi({
    host: "127.0.0.1",
    port: 0,
    tls: { ...tlsPair(certificates.current()), ca: authority.certificate },
    certificates,
    provider: new ShellProvider(),
    authenticate: () => Promise.resolve(undefined),
    authorize: () => Promise.resolve(undefined),
    assignedPods: () => [],
    log: silentLogger,
  });
  assert.equal(await servedName(server.port), "first");
  await write("second");
  await eventually(async () => assert.equal(await servedName(server.port), "second"));
});
