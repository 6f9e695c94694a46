/** Texts of draining a node. Part of texts.ts. */
export const drainTexts = {
  title: (node: string): string => `Drain ${node}`,
  plan: "What will happen",
  progress: "How far each machine is",
  empty: "No machine is on this node.",
  kept: "Nothing is lost: each machine sleeps in the registry, memory and disk, before its VM is removed.",
  outcome: {
    moves: "sleeps, and wakes on another node",
    pinned: "sleeps until this node takes machines again: its set names the node",
    noNode: "sleeps until a node of its pool takes machines: no other one is ready",
    ownerless: "sleeps; it wakes when its pod is made again",
    rests: "sleeps already; its place on this node goes",
  },
  leaving: (left: number, all: number): string => `${left} of ${all} machines have left.`,
  done: (node: string, count: number): string =>
    `${node} is drained: ${count} ${count === 1 ? "machine has" : "machines have"} left it.`,
  hasLeft: "left",
  there: "still there",
  asleep: (message: string): string => (message === "" ? "asleep in the registry" : `asleep: ${message}`),
  elsewhere: (state: string, node: string): string => `${state} on ${node}`,
  held: (reason: string): string => `may not be evicted now: ${reason}`,
  close: "Close",
  closing:
    "Closing this window undoes nothing: machines that are on their way go on, and the node takes no new ones. Drain again to go on.",
  cordoned: "It takes no new machines until it is uncordoned.",
} as const;
