/** Texts of the map of the installation. Part of texts.ts. */
export const mapTexts = {
  title: "Map of the installation",
  doctor: "What only a host itself can see (KVM, programs, network, isolation), this command says there:",
  apiServer: "API server",
  version: (version: string): string => `version ${version}`,
  memory: (bytes: string): string => `${bytes} of memory`,
  certificate: (days: number): string => `certificate: ${days} days`,
  machines: (count: number): string => `${count} ${count === 1 ? "machine" : "machines"}`,
  frozen: (count: number): string => `${count} frozen, because another node has the machine`,
  areas: {
    entrances: { title: "Entrances", leads: "ask the API server, as the user" },
    control: { title: "Kubernetes and controllers", leads: "place machines on nodes" },
    nodes: { title: "Nodes", leads: "push snapshots, and pull them" },
    registry: { title: "Registry", leads: "" },
  },
} as const;
