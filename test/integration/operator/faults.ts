/** Things that go wrong around the operator: a registry that does not answer, caches that are late. */
import { connect, createServer, type Socket } from "node:net";
import { sleep } from "@cocoon/core";
import type { KubeConnection } from "@cocoon/kube";

export interface RegistrySwitch extends AsyncDisposable {
  readonly url: string;
  down: boolean;
}

/** A way to the registry that can be cut. */
export async function startRegistrySwitch(target: string): Promise<RegistrySwitch> {
  const { hostname, port } = new URL(target);
  const open = new Set<Socket>();
  const state = { down: false };
  const server = createServer((socket) => {
    if (state.down) {
      socket.destroy();
      return;
    }
    const upstream = connect(Number(port), hostname);
    for (const each of [socket, upstream]) {
      open.add(each);
      each.on("error", () => undefined);
      each.on("close", () => {
        open.delete(each);
        socket.destroy();
        upstream.destroy();
      });
    }
    socket.pipe(upstream).pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const chosen = typeof address === "object" && address ? address.port : 0;
  return {
    url: `http://127.0.0.1:${chosen}`,
    get down() {
      return state.down;
    },
    set down(down) {
      state.down = down;
      if (down) for (const socket of open) socket.destroy();
    },
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        for (const socket of open) socket.destroy();
        server.close(() => resolve());
      }),
  };
}

/** A connection whose watches tell everything, but late. */
export function lateConnection(connection: KubeConnection, delayMs: () => number): KubeConnection {
  async function* late(chunks: AsyncIterable<Buffer>, signal: AbortSignal): AsyncGenerator<Buffer> {
    for await (const chunk of chunks) {
      const ms = delayMs();
      if (ms > 0) await sleep(ms, { signal });
      yield chunk;
    }
  }
  return {
    target: connection.target,
    get: (type, key, options) => connection.get(type, key, options),
    list: (type, options) => connection.list(type, options),
    pages: (type, options) => connection.pages(type, options),
    create: (type, object, options) => connection.create(type, object, options),
    update: (type, object, options) => connection.update(type, object, options),
    patch: (type, target, options) => connection.patch(type, target, options),
    delete: (type, key, options) => connection.delete(type, key, options),
    raw: (request) => connection.raw(request),
    upgrade: (request) => connection.upgrade(request),
    stream: async (request) => {
      const stream = await connection.stream(request);
      return { chunks: late(stream.chunks, request.signal), cancel: (reason) => stream.cancel(reason) };
    },
    [Symbol.asyncDispose]: () => connection[Symbol.asyncDispose](),
  };
}
