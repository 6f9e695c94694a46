/** A line that breaks: passes connections on to a server and cuts those that carry much, until it had enough. */
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

export interface CuttingProxy extends AsyncDisposable {
  /** The server's address with the proxy's port. */
  readonly address: string;
  readonly cuts: number;
}

export async function startCuttingProxy(
  target: string,
  { afterBytes, times }: { readonly afterBytes: number; readonly times: number },
): Promise<CuttingProxy> {
  const { hostname, port } = new URL(target);
  const open = new Set<Socket>();
  let cuts = 0;
  const pass = (from: Socket, to: Socket): void => {
    let passed = 0;
    from.on("data", (piece: Buffer) => {
      passed += piece.length;
      if (passed > afterBytes && cuts < times) {
        cuts += 1;
        from.destroy();
        to.destroy();
      }
    });
    from.pipe(to);
    from.on("error", () => to.destroy());
    from.on("close", () => open.delete(from));
    open.add(from);
  };
  const server = createServer((client) => {
    const upstream = connect(Number(port), hostname);
    pass(client, upstream);
    pass(upstream, client);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = new URL(target);
  address.port = String((server.address() as AddressInfo).port);
  return {
    address: address.origin,
    get cuts() {
      return cuts;
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
