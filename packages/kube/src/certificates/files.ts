/**
 * The certificate in files that another program renews. Both are re-read when their directories change and every few seconds.
 * Files that do not belong together are the middle of a write: the old pair stays until they agree.
 */
import { Fault, getErrorMessage, systemClock, type Clock, type Logger } from "@cocoon/core";
import { watch } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { Notices } from "./notices.ts";
import { PairHolder, readPair, type ServingCertificates, type ServingPair } from "./serving-certificates.ts";

export interface FileCertificatesOptions {
  readonly certificateFile: string;
  readonly keyFile: string;
  readonly log: Logger;
  readonly clock?: Clock;
  readonly pollMs?: number;
}

/** Throws when the files hold no usable pair at the start; afterwards the last usable one stays. */
export async function startFileCertificates(options: FileCertificatesOptions): Promise<ServingCertificates> {
  const clock = options.clock ?? systemClock;
  const holder = new PairHolder(await readFiles(options));
  const stopping = new AbortController();
  const notices = new Notices();
  const watching = watchDirectories(options, notices.notify);
  let lastProblem: string | undefined;

  const reload = async () => {
    try {
      const pair = await readFiles(options);
      lastProblem = undefined;
      if (holder.set(pair)) options.log.info(describe(options, pair), "serving certificate changed");
    } catch (error) {
      const text = getErrorMessage(error);
      if (text !== lastProblem)
        options.log.warn({ path: options.certificateFile, error: text }, "serving certificate not reloaded");
      lastProblem = text;
    }
  };
  const follow = async () => {
    const waiting = { clock: systemClock, signal: stopping.signal };
    while (await notices.wait(options.pollMs ?? 10_000, waiting)) await reload();
  };
  const running = follow();

  return holder.serve(clock, async () => {
    stopping.abort();
    watching[Symbol.dispose]();
    await running;
  });
}

async function readFiles({ certificateFile, keyFile }: FileCertificatesOptions): Promise<ServingPair> {
  const [certificate, key] = await Promise.all([readOne(certificateFile), readOne(keyFile)]);
  try {
    return readPair(certificate, key);
  } catch (error) {
    const fault = error instanceof Fault ? error.message : getErrorMessage(error);
    throw new Fault("invalid", `${certificateFile} and ${keyFile}: ${fault}`, { cause: error });
  }
}

async function readOne(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new Fault("invalid", `cannot read ${path}: ${getErrorMessage(error)}`, { cause: error });
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
      log.debug(
        { path: directory, error: getErrorMessage(error) },
        "directory cannot be watched, looking instead",
      );
      return [];
    }
  });
  return {
    [Symbol.dispose]: () => {
      for (const watcher of watchers) watcher.close();
    },
  };
}
