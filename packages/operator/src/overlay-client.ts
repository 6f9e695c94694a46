/** A client whose patches go through our overlay, so that the next look sees them before the cache does. */
import type { KubeClient, KubeObject } from "@cocoon/kube";
import type { OwnWrites } from "@cocoon/kube/controller";

export function overlayClient<O extends KubeObject>(client: KubeClient, writes: OwnWrites<O>): KubeClient {
  return {
    get: (type, key, options) => client.get(type, key, options),
    list: (type, options) => client.list(type, options),
    pages: (type, options) => client.pages(type, options),
    create: (type, object, options) => client.create(type, object, options),
    update: (type, object, options) => client.update(type, object, options),
    // Only ever used for the kind that the overlay is of.
    patch: async (_type, target, options) => (await writes.patch(target, options)) as never,
    delete: (type, key, options) => client.delete(type, key, options),
    raw: (request) => client.raw(request),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
