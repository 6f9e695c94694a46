/** The headless Service of a Sandbox. Pure. */
import { sandboxHash, sandboxLabel, type Sandbox } from "@cocoon/contract/agent-sandbox";
import type { Container, PodSpec, Service } from "@cocoon/kube";
import { controllerReference } from "@cocoon/kube/controller";
import { sandboxes } from "./settle.ts";

interface Port {
  readonly port: number;
  readonly protocol: string;
  readonly name: string | undefined;
}

export function buildService(sandbox: Sandbox): Service {
  const { name = "", namespace = "" } = sandbox.metadata;
  const labels = { [sandboxLabel.nameHash]: sandboxHash(name) };
  const ports = nameServicePorts(sandbox.spec.podTemplate.spec);
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name, namespace, labels, ownerReferences: [controllerReference(sandboxes, sandbox)] },
    spec: { clusterIP: "None", selector: labels, ...(ports.length === 0 ? {} : { ports }) },
  };
}

/** Every container port once, by number and protocol; the first name given to it counts. */
function nameServicePorts(
  spec: Partial<PodSpec>,
): readonly { name: string; port: number; targetPort: number; protocol: string }[] {
  const taken = new Set<string>();
  return listPorts(spec).map(({ port, protocol, name }) => {
    const base = name ?? `p-${port}-${protocol.toLowerCase()}`;
    let chosen = base;
    for (let count = 2; taken.has(chosen); count += 1) chosen = `${base}-${count}`;
    taken.add(chosen);
    return { name: chosen, port, targetPort: port, protocol };
  });
}

function listPorts({ containers = [], initContainers = [] }: Partial<PodSpec>): readonly Port[] {
  const isSidecar = ({ restartPolicy }: Container) => restartPolicy === "Always";
  const declared = [...containers, ...initContainers.filter(isSidecar)].flatMap(({ ports = [] }) =>
    ports.map(({ containerPort, protocol = "TCP", name }): Port => ({ port: containerPort, protocol, name })),
  );
  const byKey = Map.groupBy(declared, ({ port, protocol }) => `${port}/${protocol}`);
  return [...byKey.values()]
    .map((same) => ({ ...(same[0] as Port), name: same.find(({ name }) => name)?.name }))
    .toSorted((one, other) => one.port - other.port || one.protocol.localeCompare(other.protocol));
}
