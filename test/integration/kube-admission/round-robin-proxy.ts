/** A TCP proxy that hands each connection to the next server, as a Service does: its address is known before theirs. */
import { once } from "node:events";
import net, { type AddressInfo } from "node:net";

export interface RoundRobinProxy extends AsyncDisposable {
  readonly port: number;
  readonly url: string;
  /** Connections handed out so far, by port of the server. */
  readonly handedOut: ReadonlyMap<number, number>;
  addServer(port: number): void;
}

export async function startRoundRobinProxy(): Promise<RoundRobinProxy> {
  const ports: number[] = [];
  const handedOut = new Map<number, number>();
  const open = new Set<net.Socket>();
  let turn = 0;
  const proxy = net.createServer({ noDelay: true }, (downstream) => {
    const port = ports[turn % ports.length] ?? 0;
    turn += 1;
    handedOut.set(port, (handedOut.get(port) ?? 0) + 1);
    const upstream = net.connect({ port, host: "127.0.0.1", noDelay: true });
    for (const [from, to] of [
      [downstream, upstream],
      [upstream, downstream],
    ] as const) {
      open.add(from);
      from.pipe(to);
      from.on("error", () => to.destroy());
      from.on("close", () => {
        open.delete(from);
        to.destroySoon();
      });
    }
  });
  await once(proxy.listen(0, "127.0.0.1"), "listening");
  const { port } = proxy.address() as AddressInfo;
  return {
    port,
    url: `https://127.0.0.1:${port}`,
    handedOut,
    addServer: (port) => void ports.push(port),
    [Symbol.asyncDispose]: async () => {
      proxy.close();
      for (const socket of open) socket.destroy();
      await once(proxy, "close");
    },
  };
}
