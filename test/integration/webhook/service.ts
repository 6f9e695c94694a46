/** Stands for the Service before the webhook's replicas: a TCP proxy that skips replicas which do not listen. */
import { once } from "node:events";
import net, { type AddressInfo } from "node:net";

export interface TestService extends AsyncDisposable {
  readonly port: number;
  readonly url: string;
  add(port: number): void;
  remove(port: number): void;
}

export async function startTestService(): Promise<TestService> {
  const ports: number[] = [];
  const open = new Set<net.Socket>();
  let turn = 0;
  const proxy = net.createServer({ noDelay: true, pauseOnConnect: true }, (downstream) => {
    open.add(downstream);
    downstream.on("error", () => downstream.destroy());
    downstream.on("close", () => open.delete(downstream));
    connectTo(ports.length, downstream);
  });
  const connectTo = (triesLeft: number, downstream: net.Socket): void => {
    const port = ports[turn % Math.max(1, ports.length)];
    turn += 1;
    if (port === undefined || triesLeft <= 0) return void downstream.destroy();
    const upstream = net.connect({ port, host: "127.0.0.1", noDelay: true });
    let connected = false;
    upstream.on("connect", () => {
      connected = true;
      open.add(upstream);
      downstream.on("close", () => upstream.destroySoon());
      upstream.on("close", () => downstream.destroySoon());
      downstream.pipe(upstream);
      upstream.pipe(downstream);
      downstream.resume();
    });
    upstream.on("error", () => (connected ? downstream.destroy() : connectTo(triesLeft - 1, downstream)));
    upstream.on("close", () => open.delete(upstream));
  };
  await once(proxy.listen(0, "127.0.0.1"), "listening");
  const { port } = proxy.address() as AddressInfo;
  return {
    port,
    url: `https://127.0.0.1:${port}`,
    add: (each) => void ports.push(each),
    remove: (each) => {
      if (ports.includes(each)) ports.splice(ports.indexOf(each), 1);
    },
    [Symbol.asyncDispose]: async () => {
      proxy.close();
      for (const socket of open) socket.destroy();
      await once(proxy, "close");
    },
  };
}
