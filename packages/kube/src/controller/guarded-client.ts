/** A client that writes only while its leadership is certain: asked right before each write, ended with it. */
import type { CallOptions, KubeClient } from "../client.ts";
import type { Leadership } from "./leadership.ts";

export function guardedClient(client: KubeClient, leadership: Leadership): KubeClient {
  const guarded = <O extends CallOptions>(options: O): O => {
    leadership.assertHeld();
    return { ...options, signal: AbortSignal.any([options.signal, leadership.signal]) };
  };
  return {
    get: (type, key, options) => client.get(type, key, options),
    list: (type, options) => client.list(type, options),
    pages: (type, options) => client.pages(type, options),
    create: async (type, object, options) => client.create(type, object, guarded(options)),
    update: async (type, object, options) => client.update(type, object, guarded(options)),
    patch: async (type, target, options) => client.patch(type, target, guarded(options)),
    delete: async (type, key, options) => client.delete(type, key, guarded(options)),
    raw: async (request) => client.raw(request.method === "GET" ? request : guarded(request)),
    // The connection belongs to whoever opened it.
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
