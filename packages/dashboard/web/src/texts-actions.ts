/** Texts of what a user can do. Part of texts.ts. */
export const actionTexts = {
  suspend: "Suspend",
  resume: "Resume",
  hibernate: "Hibernate",
  wake: "Wake",
  migrate: "Move to a node",
  scale: "Scale",
  delete: "Delete",
  cordon: "Cordon",
  uncordon: "Uncordon",
  drain: "Drain",
  fork: "Fork",
  snapshot: "Snapshot",
  restore: "Restore",
  newName: "Name of the new set",
  whichSnapshot: "Snapshot",
  busy: "Working…",
  replaced: (name: string): string => `Another set took the name ${name} meanwhile.`,
  notSaved: (name: string): string => `The machine of ${name} did not come up; nothing was saved.`,
  cancel: "Cancel",
  same: "The same on the command line:",
  copy: "Copy",
  copied: "Copied",
  done: "Requested.",
  notAllowed: (right: string): string => `You may not do this: it needs the right to ${right}.`,
  checking: "Asking the API server whether you may do this…",
  unknown: "The API server did not say whether you may do this.",
  readOnly: "This dashboard is read-only.",
  typeName: (name: string): string => `Type ${name} to confirm`,
  node: "Node",
  replicas: "Sub-agents",
} as const;

export const explainTexts = {
  suspend: "Every machine of the set sleeps in the registry, memory and disk, and its node is free again.",
  resume: "Every machine of the set wakes exactly where it was.",
  hibernate: "The machine sleeps in the registry, memory and disk.",
  wake: "The machine wakes exactly where it was.",
  migrate: "The main agent sleeps, and wakes on the other node exactly where it was.",
  scale:
    "Sub-agents are forked from the main agent. A sub-agent that is removed follows the snapshot policy.",
  keepAll: "Each machine leaves a snapshot named latest in the registry (snapshotPolicy: always).",
  keepMain:
    "The main agent leaves a snapshot named latest; sub-agents and toolboxes leave none (snapshotPolicy: main-only).",
  keepNone: "No machine leaves a snapshot: memory and disks are gone for good (snapshotPolicy: never).",
  purge: "Snapshots in the registry are removed as well: nothing is kept (deletionPolicy: Purge).",
  fork: "A new set whose main agent goes on from where this one is now, on the same node. Both go on.",
  snapshot:
    "The main agent is forked, and the fork sleeps in the registry as a set of its own: resume it, or restore new sets from it. This set goes on.",
  restore:
    "A new set whose main agent starts from that snapshot, with a fresh identity. This set is not changed.",
  cordon: "The node takes no new machines; those on it stay.",
  uncordon: "The node takes machines again.",
  drain:
    "The node takes no new machines, and those on it sleep and wake on other nodes. Disruption budgets are honoured.",
} as const;
