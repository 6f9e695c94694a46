/** Copies TCP connections, each direction as fast as its reader takes it. */
import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** Both ends may close one direction and go on with the other. */
const halfOpen = { allowHalfOpen: true, noDelay: true } as const;

/** For another process, which accepts; clients that come before it has it are to try again. */
export async function listenOn({ host, port }: ListenAddress): Promise<Server> {
  const server = createServer((socket) => socket.destroy());
  server.listen({ host, port });
  await once(server, "listening");
  return server;
}

/** Each connection of the listener goes on to `target`, as the network of this process sees it. */
export function forwardConnections(listener: Server, target: ListenAddress): void {
  listener.on("connection", (client: Socket) => {
    client.allowHalfOpen = true;
    client.setNoDelay(true);
    const server = connect({ ...target, ...halfOpen });
    client.pipe(server).pipe(client);
    for (const [one, other] of [
      [client, server],
      [server, client],
    ] as const)
      // An end that was cut off cuts off the other; one that has said all lets it finish.
      one
        .on("error", () => other.resetAndDestroy())
        .on("close", () => {
          if (!one.readableEnded) other.resetAndDestroy();
        });
  });
}
