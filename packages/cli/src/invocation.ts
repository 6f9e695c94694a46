/** Under which name the program runs: `cocoonctl`, or `kubectl-cocoon`, which kubectl runs for `kubectl cocoon`. */
import { basename } from "node:path";

export function isKubectlPlugin(program: string = process.argv[1] ?? ""): boolean {
  return /^kubectl(-|_complete-)cocoon/.test(basename(program));
}

export function commandName(program?: string): string {
  return isKubectlPlugin(program) ? "kubectl cocoon" : "cocoonctl";
}
