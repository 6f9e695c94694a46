/** A certificate that nobody vouches for, for servers whose clients do not check it or are told to trust it. */
import { tryReadFile, type Logger } from "@cocoon/core";
import { systemClock, type Clock } from "./clock.ts";
import { startFileCertificates } from "./files.ts";
import { createSelfSignedPair } from "./issue.ts";
import {
  daysUntil,
  PairHolder,
  readPair,
  validityTrouble,
  type ServingCertificates,
} from "./serving-certificates.ts";

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
  const validity = { nowMs: clock.nowMs(), forMs: tenYearsMs, backdateMs };
  const made = await createSelfSignedPair({ commonName: host, hosts }, validity);
  const holder = new PairHolder(readPair(made.certificate, made.privateKey));
  return {
    current: () => holder.pair,
    onChange: (listener) => holder.onChange(listener),
    readiness: () => validityTrouble(holder.pair, clock.nowMs()),
    daysToExpiry: () => daysUntil(holder.pair, clock.nowMs()),
    [Symbol.asyncDispose]: async () => undefined,
  };
}

export interface FileOrSelfSignedOptions extends SelfSignedOptions {
  /** Unset or empty paths mean: no files. */
  readonly certificateFile?: string | undefined;
  readonly keyFile?: string | undefined;
  readonly log: Logger;
  readonly pollMs?: number;
}

/**
 * The pair from disk, followed as it changes; a self-signed one when there are no such files or theirs has expired.
 * Files that are there and cannot be used are an error: somebody meant them to be.
 */
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
  if (readPair(certificate, key).notAfterMs <= clock.nowMs()) {
    log.warn({ path: certificateFile }, "serving certificate on disk has expired");
    return selfSignedCertificates(options);
  }
  return startFileCertificates({ ...options, certificateFile, keyFile });
}
