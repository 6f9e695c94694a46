/** A link to a server with a speed and a delay of its own, which can be cut and repaired. */
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { setTimeout as wait } from "node:timers/promises";

export interface SlowLink extends AsyncDisposable {
  /** The server's address with the link's port. */
  readonly address: string;
  /** Bytes that came from the server, and those that went to it. */
  readonly received: number;
  readonly sent: number;
  /** Breaks every connection; new ones are refused until it is repaired. */
  cut(): void;
  repair(): void;
}

export interface LinkOptions {
  /** For each direction, all connections together. Default: no limit. */
  readonly bytesPerSecond?: number;
  /** Before each piece of an answer. */
  readonly delayMs?: number;
}

class Direction {
  bytes = 0;
  #freeAt = 0;
  readonly #rate: number;

  constructor(bytesPerSecond: number) {
    this.#rate = bytesPerSecond;
  }

  /** Resolves when the link has carried so many bytes. */
  async carry(bytes: number): Promise<void> {
    const now = performance.now();
    this.#freeAt = Math.max(now, this.#freeAt) + (bytes / this.#rate) * 1000;
    this.bytes += bytes;
    if (this.#freeAt - now > 1) await wait(this.#freeAt - now);
  }
}

export async function startSlowLink(target: string, options: LinkOptions = {}): Promise<SlowLink> {
  const { bytesPerSecond = Number.POSITIVE_INFINITY, delayMs = 0 } = options;
  const { hostname, port } = new URL(target);
  const [down, up] = [new Direction(bytesPerSecond), new Direction(bytesPerSecond)];
  const open = new Set<Socket>();
  let isCut = false;
  const server = createServer((client) => {
    if (isCut) {
      client.destroy();
      return;
    }
    const upstream = connect(Number(port), hostname);
    for (const socket of [client, upstream]) {
      open.add(socket);
      socket.on("error", () => undefined);
      socket.on("close", () => {
        open.delete(socket);
        client.destroy();
        upstream.destroy();
      });
    }
    let asked = false;
    client.on("data", () => (asked = true));
    const delay = async (): Promise<void> => {
      if (asked && delayMs > 0) await wait(delayMs);
      asked = false;
    };
    void pass(client, upstream, (bytes) => up.carry(bytes));
    void pass(upstream, client, async (bytes) => {
      await delay();
      await down.carry(bytes);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = new URL(target);
  address.port = String((server.address() as AddressInfo).port);
  const cut = (): void => {
    isCut = true;
    for (const socket of open) socket.destroy();
  };
  return {
    address: address.origin,
    get received() {
      return down.bytes;
    },
    get sent() {
      return up.bytes;
    },
    cut,
    repair: () => (isCut = false),
    [Symbol.asyncDispose]: async () => {
      cut();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function pass(from: Socket, to: Socket, carry: (bytes: number) => Promise<void>): Promise<void> {
  try {
    for await (const piece of from as AsyncIterable<Buffer>) {
      await carry(piece.length);
      if (!to.write(piece)) await new Promise((resolve) => to.once("drain", resolve).once("close", resolve));
    }
    to.end();
  } catch {
    to.destroy(); // the link was cut
  }
}
