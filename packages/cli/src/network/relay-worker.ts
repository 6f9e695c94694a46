/** The part of the relay that is in a network namespace. Ends with the relay that started it. */
import type { Server } from "node:net";
import { forwardConnections, listenOn, type ListenAddress } from "./forward-connections.ts";
import type { WorkerAnswer, WorkerRequest } from "./relay.ts";

export async function runWorker(): Promise<void> {
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  process.on("message", (request: WorkerRequest, listener: Server | undefined) => {
    if ("listen" in request) void listen(request.listen);
    else if (listener) forwardConnections(listener, request.accept);
  });
  process.on("disconnect", resolve);
  await ended;
  process.exit(0); // oxlint-disable-line no-process-exit -- connections under way end with the relay
}

/** The listener goes to the relay, which connects on the host. */
async function listen(address: ListenAddress): Promise<void> {
  const answer = (said: WorkerAnswer, listener?: Server) =>
    process.send?.(said, listener, {}, () => listener?.close());
  try {
    answer({ listening: address }, await listenOn(address));
  } catch (error) {
    answer({ failed: String(error) });
  }
}
