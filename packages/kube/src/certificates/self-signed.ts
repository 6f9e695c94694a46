/** A self-signed certificate, for servers whose clients do not verify it or are configured to trust it. */
import { systemClock, tryReadFile, type Clock, type Logger } from "@cocoon/core";
import { startFileCertificates } from "./files.ts";
import { createSelfSignedPair } from "./issue.ts";
import { PairHolder, readPair, type ServingCertificates } from "./serving-certificates.ts";

export interface SelfSignedOptions {
  /** Host name and address of this machine; `localhost` and 127.0.0.1 are always added. */
  readonly host: string;
  readonly ip?: string;
  readonly clock?: Clock;
}

const tenYearsMs = 10 * 365 * 86_400_000;
const backdateMs = 60 * 60_000;

export async function selfSignedCertificates({
  host,
  ip,
  clock = systemClock,
}: SelfSignedOptions): Promise<ServingCertificates> {
  const hosts = [host, "localhost", ...(ip === undefined ? [] : [ip]), "127.0.0.1"];
  const validity = { nowMs: clock.wallNow(), forMs: tenYearsMs, backdateMs };
  const made = await createSelfSignedPair({ commonName: host, hosts }, validity);
  const holder = new PairHolder(readPair(made.certificate, made.privateKey));
  return holder.serve(clock, async () => undefined);
}

export interface FileOrSelfSignedOptions extends SelfSignedOptions {
  readonly certificateFile?: string | undefined;
  readonly keyFile?: string | undefined;
  readonly log: Logger;
  readonly pollMs?: number;
}

/** The pair from disk, or a self-signed one when there are no files or theirs expired. Unusable files are an error. */
export async function fileOrSelfSignedCertificates(
  options: FileOrSelfSignedOptions,
): Promise<ServingCertificates> {
  const { certificateFile, keyFile, log, clock = systemClock } = options;
  if (!certificateFile || !keyFile) return selfSignedCertificates(options);
  const [certificate, key] = await Promise.all([tryReadFile(certificateFile), tryReadFile(keyFile)]);
  if (certificate === undefined || key === undefined) {
    log.info(
      { path: certificate === undefined ? certificateFile : keyFile },
      "no serving certificate on disk",
    );
    return selfSignedCertificates(options);
  }
  if (readPair(certificate, key).notAfterMs <= clock.wallNow()) {
    log.warn({ path: certificateFile }, "serving certificate on disk has expired");
    return selfSignedCertificates(options);
  }
  return startFileCertificates({ ...options, certificateFile, keyFile });
}
