/** Options that an agent and a toolbox share; they stand at the level of the agent or toolbox itself. */
import * as z from "zod";
import { field } from "./schema.ts";

export const guestSystems = ["linux", "windows", "android", "macos"] as const;
export type GuestSystem = (typeof guestSystems)[number];

export const connectionTypes = ["ssh", "rdp", "vnc", "adb"] as const;
export type ConnectionType = (typeof connectionTypes)[number];

/** `qemu` is ours; the Go systems know the first two. */
export const backends = ["cloud-hypervisor", "firecracker", "qemu"] as const;

const resourceList = (description: string) =>
  z
    .record(z.string(), field.quantity("An amount, for example 500m, 2 or 4Gi."))
    .meta({ description })
    .optional();

const resourcesSchema = z.object({
  limits: resourceList("The most that the machine may use, by resource name (cpu, memory)."),
  requests: resourceList(
    "What the machine is sure to get, by resource name. CPU (rounded up) and memory of the machine are taken from here, and from the limits where nothing is requested.",
  ),
  claims: z
    .array(
      z.object({
        name: z.string().meta({ description: "Name of one entry of the pod's resourceClaims." }),
        request: z
          .string()
          .meta({ description: "One request of that claim; empty means all of it." })
          .optional(),
      }),
    )
    .meta({
      description: "Resource claims of the pod that the container uses.",
      "x-kubernetes-list-type": "map",
      "x-kubernetes-list-map-keys": ["name"],
    })
    .optional(),
});

const localReference = (what: string) =>
  z
    .object({
      name: z
        .string()
        .meta({ description: `Name of the ${what} in the namespace of the set.` })
        .default(""),
      optional: field.flag(`Whether the machine may start without the ${what}.`).exactOptional(),
    })
    .meta({
      description: `The ${what} whose entries become environment variables.`,
      "x-kubernetes-map-type": "atomic",
    })
    .exactOptional();

export const envFromSchema = z.array(
  z.object({
    prefix: z.string().meta({ description: "Text put before the name of every variable." }).exactOptional(),
    configMapRef: localReference("ConfigMap"),
    secretRef: localReference("Secret"),
  }),
);

export const vmOptions = {
  os: field.choice(guestSystems, "Operating system of the guest.").default("linux"),
  backend: field
    .choice(
      backends,
      "Hypervisor to run the machine with: a preference, a node runs what its runtime offers. firecracker boots OCI images only, runs no Windows and cannot clone.",
    )
    .default("cloud-hypervisor"),
  connType: field
    .choice(
      connectionTypes,
      "Protocol to advertise for reaching the machine. When not set it follows from the guest: vnc where there is a VNC port, adb for android, rdp for windows, otherwise ssh. vnc gives a machine that boots from an image a screen; so does windows when this is not set.",
    )
    .optional(),
  network: field
    .text("Network to attach the machine to; empty means the default network of the node.")
    .optional(),
  forcePull: field.flag("Fetch the image even when the node has it already.").optional(),
  noDirectIO: field
    .flag("Go through the page cache of the host instead of direct I/O; cloud-hypervisor only.")
    .optional(),
  probePort: field
    .port("TCP port that answers when the guest is ready. 0, or none, asks the guest by ICMP echo instead.")
    .optional(),
  storage: field
    .quantity("Size of the root volume, for example 20Gi; also requested as ephemeral storage of the pod.")
    .optional(),
  resources: resourcesSchema
    .meta({ description: "CPU and memory of the machine, as in a container of a pod." })
    .optional(),
};

interface ConnectionFacts {
  readonly os: string;
  readonly hasVncPort: boolean;
  readonly override?: ConnectionType | "" | undefined;
}

export function chooseConnectionType({ os, hasVncPort, override }: ConnectionFacts): ConnectionType {
  if (override) return override;
  if (hasVncPort) return "vnc";
  if (os === "android") return "adb";
  return os === "windows" ? "rdp" : "ssh";
}
