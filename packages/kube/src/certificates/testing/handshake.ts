/** What a TLS client sees of a server. */
import { once } from "node:events";
import https from "node:https";
import type { AddressInfo } from "node:net";
import tls from "node:tls";
import { followCertificates, tlsPair, type ServingCertificates } from "../index.ts";

/** A server that follows its certificates. */
export async function serveTls(
  certificates: ServingCertificates,
): Promise<AsyncDisposable & { port: number }> {
  const server = https.createServer(tlsPair(certificates.current()), (_request, response) =>
    response.end("ok"),
  );
  const following = followCertificates(server, { certificates });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    port: (server.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      following[Symbol.dispose]();
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

export interface Seen {
  readonly fingerprint: string;
  readonly error: string | undefined;
}

/** The certificate that a new connection gets, and why the client would not accept it. */
export async function handshake(
  port: number,
  { ca, servername = "localhost" }: { readonly ca?: string; readonly servername?: string } = {},
): Promise<Seen> {
  const socket = tls.connect({
    port,
    host: "127.0.0.1",
    servername,
    rejectUnauthorized: false,
    ...(ca === undefined ? {} : { ca }),
  });
  try {
    await once(socket, "secureConnect");
    // Typed as an error, but a code such as DEPTH_ZERO_SELF_SIGNED_CERT; null when all is well.
    const error = socket.authorizationError as unknown as string | null;
    return { fingerprint: socket.getPeerCertificate().fingerprint256, error: error ?? undefined };
  } finally {
    socket.destroy();
  }
}
