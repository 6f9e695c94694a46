/** Certificates that are replaced while we serve: the files are looked at every few seconds and read when they changed. */
import { readFile, stat } from "node:fs/promises";
import type http from "node:http";
import type https from "node:https";
import { createSecureContext } from "node:tls";
import { getErrorMessage, sleep, toFault, type Logger } from "@cocoon/core";

export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
  readonly everyMs?: number;
}

export interface ReloadingTls extends AsyncDisposable {
  readonly options: https.ServerOptions;
  /** From now on new connections to this server get what the files hold. */
  attach(server: http.Server | https.Server): void;
}

interface Pair {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** Throws when the files hold no usable pair now; later, an unusable pair is reported and the old one kept. */
export async function tlsWithReload(files: TlsFiles, log: Logger): Promise<ReloadingTls> {
  const stopping = new AbortController();
  let version = await readVersion(files);
  const pair = await readPair(files);
  let watching: Promise<void> = Promise.resolve();

  async function watch(server: https.Server): Promise<void> {
    while (await sleep(files.everyMs ?? 10_000, { signal: stopping.signal })) {
      try {
        const current = await readVersion(files);
        if (current === version) continue;
        server.setSecureContext(await readPair(files));
        version = current;
        log.info({ path: files.certFile }, "certificate reloaded");
      } catch (error) {
        log.warn(
          { path: files.certFile, error: getErrorMessage(error) },
          "new certificate cannot be used; the old one stays",
        );
      }
    }
  }

  return {
    options: pair,
    attach: (server) => {
      if ("setSecureContext" in server) watching = watch(server);
    },
    [Symbol.asyncDispose]: async () => {
      stopping.abort();
      await watching;
    },
  };
}

async function readVersion({ certFile, keyFile }: TlsFiles): Promise<string> {
  const found = await Promise.all([stat(certFile), stat(keyFile)]);
  return found.map(({ mtimeMs, ino, size }) => `${mtimeMs}:${ino}:${size}`).join(" ");
}

async function readPair({ certFile, keyFile }: TlsFiles): Promise<Pair> {
  try {
    const [cert, key] = await Promise.all([readFile(certFile), readFile(keyFile)]);
    createSecureContext({ cert, key }); // throws when they do not belong together
    return { cert, key };
  } catch (error) {
    throw toFault(error, `TLS files ${certFile} and ${keyFile}`);
  }
}
