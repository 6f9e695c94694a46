/** Whether each part answers that it is ready, looked up at its own health endpoint. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { cachedBinaries, defaultCacheRoot, describeControlPlane, findRunning } from "@cocoon/controlplane";
import { isAlive } from "@cocoon/core";
import { partNames, type PartName } from "./parts.ts";

export interface PartProbes {
  /** Throws the reason why a part is not ready. */
  readonly probe: (part: PartName) => Promise<void>;
  /** What is not ready, with its reason. */
  readonly findUnready: () => Promise<string[]>;
}

const probeMs = 3_000;
const healthPorts: Readonly<Partial<Record<PartName, string>>> = {
  registry: "registryHealth",
  operator: "operatorHealth",
  webhook: "webhookHealth",
  colocation: "colocationHealth",
  "vk-node-1": "node1Health",
  "vk-node-2": "node2Health",
};

export async function openPartProbes(home: string): Promise<PartProbes> {
  const described = await describeControlPlane(home, cachedBinaries(defaultCacheRoot(process.env)));
  const { ports } = JSON.parse(await readFile(join(home, "parts", "parts.json"), "utf8")) as {
    ports: Readonly<Record<string, number>>;
  };
  const probe = async (part: PartName): Promise<void> => {
    const signal = AbortSignal.timeout(probeMs);
    const identity = await findRunning(home, part);
    if (!identity || !isAlive(identity)) throw new Error("it does not run");
    const component = described?.components.find(({ name }) => name === part);
    if (component) return component.probe({ signal });
    const port = ports[healthPorts[part] ?? ""];
    if (port === undefined) return; // the supervisor has no endpoint: it runs
    const answer = await fetch(`http://127.0.0.1:${port}/readyz`, { signal });
    const text = await answer.text();
    if (!answer.ok) throw new Error(text.slice(0, 200).trim());
  };
  const findUnready = async (): Promise<string[]> => {
    const found = await Promise.all(
      partNames.map((part) =>
        probe(part).then(
          () => [],
          (error: unknown) => [`${part} is not ready: ${String(error)}`],
        ),
      ),
    );
    return found.flat();
  };
  return { probe, findUnready };
}
