/** Texts of what the health page checks. Part of texts.ts. */
export const findingTexts = {
  parts: {
    title: "Parts",
    ok: (count: number): string => `All ${count} answer.`,
    fix: (names: string): string => `No answer: ${names}. See cocoonctl status and its logs.`,
  },
  versions: {
    title: "Versions",
    ok: (version: string): string => (version === "" ? "Not known." : `All are ${version}.`),
    fix: (versions: string): string => `Different ones run: ${versions}. Finish the update.`,
  },
  nodes: {
    title: "Nodes",
    ok: (count: number): string => `${count} ready.`,
    fix: (names: string): string => `Not ready: ${names}. Machines there cannot be reached.`,
  },
  machines: {
    title: "Machines",
    ok: (count: number): string => `${count}, none failed.`,
    fix: (names: string): string => `Failed: ${names}. Their pages say why.`,
  },
  certificates: {
    title: "Certificates",
    ok: (days: number): string => `Valid for ${days} days or more.`,
    fix: (days: number): string =>
      `One ends in ${days} days. It should have been renewed: see the webhook's log.`,
  },
  reconciles: {
    title: "Controllers",
    ok: "Every object is reconciled.",
    fix: (count: number): string => `${count} objects fail to reconcile. See the warnings below.`,
  },
  hosts: {
    title: "Hosts",
    ok: "No node is short of memory or disk, and none keeps a frozen machine.",
    fix: (what: string): string => `${what}. Free some, or drain the node.`,
    frozen: (name: string): string =>
      `${name} keeps frozen machines that run elsewhere; see cocoonctl doctor there`,
  },
  storage: {
    title: "Storage",
    ok: (free: string): string => `${free} free where there is least.`,
    fix: (free: string): string => `Only ${free} free on a node. Machines there may not be saved.`,
  },
} as const;
