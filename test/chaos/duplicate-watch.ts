/** Looks several times a second whether one machine runs twice. Two looks in a row with the same two processes count. */
import { listMachineProcesses } from "./machines.ts";

const intervalMs = 300;

export interface DuplicateWatch extends Disposable {
  /** What was found since the last call. */
  readonly take: () => string[];
}

export function watchForDuplicates(home: string): DuplicateWatch {
  let before = new Set<string>();
  let found: string[] = [];
  const reported = new Set<string>();
  const look = () => {
    const pairs = new Map<string, string>();
    const byName = Map.groupBy(listMachineProcesses(home), ({ vmName }) => vmName);
    for (const [vmName, processes] of byName) {
      if (processes.length < 2) continue;
      const where = processes.map(({ node, pid }) => `${node} (process ${pid})`).toSorted();
      pairs.set(`${vmName} ${where.join(" ")}`, `${vmName} runs twice: ${where.join(", ")}`);
    }
    for (const [key, text] of pairs) {
      if (!before.has(key) || reported.has(key)) continue;
      reported.add(key);
      found.push(text);
    }
    before = new Set(pairs.keys());
  };
  const timer = setInterval(look, intervalMs);
  return {
    take: () => {
      const taken = found;
      found = [];
      return taken;
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
}
