/**
 * The certificate in files that somebody else renews: cert-manager through a mounted Secret (where a symbolic link is
 * swapped), or any program that writes them. Both files are re-read when their directories change and, because such
 * notices get lost, every few seconds. What is read together and does not belong together is not served: it is the
 * middle of somebody's write, and the old pair stays until the files agree.
 */
import { Fault, messageOf, type Logger } from "@cocoon/core";
import { watch } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { systemClock, type Clock } from "./clock.ts";
import { Notices } from "./notices.ts";
import {
  daysUntil,
  PairHolder,
  readPair,
  validityTrouble,
  type ServingCertificates,
  type ServingPair,
} from "./serving-certificates.ts";

export interface FileCertificatesOptions {
  readonly certificateFile: string;
  readonly keyFile: string;
  readonly log: Logger;
  readonly clock?: Clock;
  /** Time between looks when nothing was noticed. Default 10 s. */
  readonly pollMs?: number;
}

/** Throws when the files hold no usable pair at the start; afterwards the last usable one stays. */
export async function startFileCertificates(options: FileCertificatesOptions): Promise<ServingCertificates> {
  const clock = options.clock ?? systemClock;
  const holder = new PairHolder(await readFiles(options));
  const stopping = new AbortController();
  const notices = new Notices();
  const watching = watchDirectories(options, notices.notify);
  let trouble: string | undefined;

  const reload = async () => {
    try {
      const pair = await readFiles(options);
      trouble = undefined;
      if (holder.set(pair)) options.log.info(describe(options, pair), "serving certificate changed");
    } catch (error) {
      const text = messageOf(error);
      if (text !== trouble)
        options.log.warn({ path: options.certificateFile, error: text }, "serving certificate not reloaded");
      trouble = text;
    }
  };
  const follow = async () => {
    const waiting = { clock: systemClock, signal: stopping.signal };
    while (await notices.wait(options.pollMs ?? 10_000, waiting)) await reload();
  };
  const running = follow();

  return {
    current: () => holder.pair,
    onChange: (listener) => holder.onChange(listener),
    readiness: () => validityTrouble(holder.pair, clock.nowMs()),
    daysToExpiry: () => daysUntil(holder.pair, clock.nowMs()),
    [Symbol.asyncDispose]: async () => {
      stopping.abort();
      watching[Symbol.dispose]();
      await running;
    },
  };
}

async function readFiles({ certificateFile, keyFile }: FileCertificatesOptions): Promise<ServingPair> {
  const [certificate, key] = await Promise.all([readOne(certificateFile), readOne(keyFile)]);
  try {
    return readPair(certificate, key);
  } catch (error) {
    const fault = error instanceof Fault ? error.message : messageOf(error);
    throw new Fault("invalid", `${certificateFile} and ${keyFile}: ${fault}`, { cause: error });
  }
}

async function readOne(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new Fault("invalid", `cannot read ${path}: ${messageOf(error)}`, { cause: error });
  }
}

function describe({ certificateFile }: FileCertificatesOptions, pair: ServingPair): Record<string, unknown> {
  return {
    path: certificateFile,
    fingerprint: pair.fingerprint,
    notAfter: new Date(pair.notAfterMs).toISOString(),
  };
}

/** The directories, not the files: a file that is replaced takes its watch with it. */
function watchDirectories(
  { certificateFile, keyFile, log }: FileCertificatesOptions,
  notify: () => void,
): Disposable {
  const watchers = [...new Set([dirname(certificateFile), dirname(keyFile)])].flatMap((directory) => {
    try {
      const watcher = watch(directory, { persistent: false }, notify);
      watcher.on("error", () => watcher.close()); // looking every few seconds goes on
      return [watcher];
    } catch (error) {
      log.debug({ path: directory, error: messageOf(error) }, "directory cannot be watched, looking instead");
      return [];
    }
  });
  return {
    [Symbol.dispose]: () => {
      for (const watcher of watchers) watcher.close();
    },
  };
}
