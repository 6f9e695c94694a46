/** Writers that create, change and delete ConfigMaps at random, through an undisturbed connection. */
import { isFault } from "@cocoon/core";
import { configMaps, type ConfigMap, type KubeClient } from "@cocoon/kube";
import { seededRandom } from "@cocoon/testkit";

export interface ChurnOptions {
  readonly client: KubeClient;
  readonly namespace: string;
  /** How many different names there are. */
  readonly names: number;
  readonly steps: number;
  readonly writers?: number;
  readonly seed: number;
  /** Bytes of data in each object. */
  readonly payloadBytes?: number;
  readonly signal: AbortSignal;
}

/** Each step changes exactly one object of a name that belongs to its writer alone. */
export async function churn(options: ChurnOptions): Promise<void> {
  const { writers = 8 } = options;
  const each = Array.from({ length: writers }, (_value, writer) =>
    writeAlone({ ...options, writers }, writer),
  );
  await Promise.all(each);
}

async function writeAlone(
  options: ChurnOptions & { readonly writers: number },
  writer: number,
): Promise<void> {
  const { client, namespace, names, steps, writers, signal, payloadBytes = 100 } = options;
  const random = seededRandom(options.seed + writer);
  const payload = "x".repeat(payloadBytes);
  for (let step = 0; step < steps / writers; step += 1) {
    const name = `map-${Math.floor((random() * names) / writers) * writers + writer}`;
    const key = { namespace, name };
    const object: ConfigMap = { metadata: key, data: { step: String(step), payload } };
    const draw = random();
    try {
      if (draw < 0.3) await client.delete(configMaps, key, { signal });
      else await client.update(configMaps, object, { signal });
    } catch (error) {
      if (!isFault(error, "notFound")) throw error;
      await client.create(configMaps, object, { signal });
    }
  }
}

/** Creates all names, so that the churn begins with everything there. */
export async function fill(options: Omit<ChurnOptions, "steps" | "seed">): Promise<void> {
  const { client, namespace, names, signal, writers = 16, payloadBytes = 100 } = options;
  const data = { payload: "x".repeat(payloadBytes) };
  let next = 0;
  const work = async () => {
    for (let index = next++; index < names; index = next++)
      await client.create(configMaps, { metadata: { namespace, name: `map-${index}` }, data }, { signal });
  };
  await Promise.all(Array.from({ length: writers }, work));
}
