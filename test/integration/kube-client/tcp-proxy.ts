/** A TCP proxy that can be cut: what lies between a client and its API server on a bad day. */
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

export interface TcpProxy extends AsyncDisposable {
  readonly url: string;
  /** Connections that were accepted so far. */
  readonly accepted: number;
  /** Ends every connection at once, in the middle of whatever it carries. */
  cut(): void;
  /** Ends the next connection that carries answers after this many bytes of them. */
  cutAfter(bytes: number): void;
  /** Connections are refused (closed at once) until `open`. */
  close(): void;
  open(): void;
  /** Connections stay, nothing passes any more: a cable that was pulled. */
  freeze(): void;
}

export async function startTcpProxy(target: string): Promise<TcpProxy> {
  const { hostname, port } = new URL(target);
  const pairs = new Set<readonly [Socket, Socket]>();
  const limits: number[] = [];
  let accepted = 0;
  let closed = false;
  const server = createServer((client) => {
    if (closed) return void client.resetAndDestroy();
    accepted += 1;
    const upstream = connect(Number(port), hostname);
    const pair = [client, upstream] as const;
    pairs.add(pair);
    const end = () => {
      pairs.delete(pair);
      client.destroy();
      upstream.destroy();
    };
    let allowed = limits.shift() ?? Number.POSITIVE_INFINITY;
    client.pipe(upstream);
    upstream.on("data", (chunk: Buffer) => {
      if (!client.write(chunk.subarray(0, allowed))) {
        upstream.pause();
        client.once("drain", () => upstream.resume());
      }
      allowed -= chunk.length;
      if (allowed <= 0) client.end(end);
    });
    for (const socket of pair) socket.on("error", end).on("close", end);
    return undefined;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const cut = () => {
    for (const [client, upstream] of pairs) {
      client.resetAndDestroy();
      upstream.destroy();
    }
  };
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get accepted() {
      return accepted;
    },
    cut,
    cutAfter: (bytes) => void limits.push(bytes),
    close: () => {
      closed = true;
      cut();
    },
    open: () => void (closed = false),
    freeze: () => {
      for (const [client, upstream] of pairs) {
        client.unpipe(upstream).pause();
        upstream.removeAllListeners("data").pause();
      }
    },
    [Symbol.asyncDispose]: async () => {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
