/** The variables that tell a container about the services of its namespace, in the old Docker-links style. */
import type { KubeObject } from "@cocoon/kube";

interface ServicePort {
  readonly name?: string;
  readonly port: number;
  readonly protocol?: string;
}

export interface Service extends KubeObject {
  readonly spec?: {
    readonly clusterIP?: string;
    readonly ports?: readonly ServicePort[];
  };
}

/** Variables of all services, sorted by service name so that the result does not depend on cache order. */
export function serviceVariables(services: readonly Service[]): ReadonlyMap<string, string> {
  const variables = new Map<string, string>();
  const sorted = services.toSorted((left, right) =>
    (left.metadata.name ?? "") < (right.metadata.name ?? "") ? -1 : 1,
  );
  for (const service of sorted) addService(variables, service);
  return variables;
}

function addService(variables: Map<string, string>, service: Service): void {
  const address = service.spec?.clusterIP;
  const ports = service.spec?.ports ?? [];
  const [first] = ports;
  if (!address || address === "None" || !first) return; // headless: nothing to point at
  const name = variableName(service.metadata.name ?? "");
  variables.set(`${name}_SERVICE_HOST`, address);
  variables.set(`${name}_SERVICE_PORT`, String(first.port));
  for (const port of ports) {
    if (port.name) variables.set(`${name}_SERVICE_PORT_${variableName(port.name)}`, String(port.port));
  }
  variables.set(`${name}_PORT`, urlOf(address, first));
  for (const port of ports) {
    const prefix = `${name}_PORT_${port.port}_${protocolOf(port)}`;
    variables.set(prefix, urlOf(address, port));
    variables.set(`${prefix}_PROTO`, protocolOf(port).toLowerCase());
    variables.set(`${prefix}_PORT`, String(port.port));
    variables.set(`${prefix}_ADDR`, address);
  }
}

function protocolOf(port: ServicePort): string {
  return (port.protocol ?? "TCP").toUpperCase();
}

function urlOf(address: string, port: ServicePort): string {
  return `${protocolOf(port).toLowerCase()}://${hostText(address)}:${port.port}`;
}

function hostText(address: string): string {
  return address.includes(":") ? `[${address}]` : address;
}

function variableName(name: string): string {
  return name.toUpperCase().replaceAll(/[-.]/g, "_");
}
