/** Names of the files in a snapshot: one flat directory, nothing that leads out of it. */
import { Fault } from "@cocoon/core";

const longest = 255;
/** The envelope of an archive; no file of the machine. */
export const envelopeName = "snapshot.json";

export function assertFileName(name: string): void {
  const problem = findProblem(name);
  if (problem)
    throw new Fault("invalid", `snapshot file name ${JSON.stringify(name.slice(0, 300))} ${problem}`);
}

function findProblem(name: string): string | undefined {
  if (name === "" || name === "." || name === "..") return "names no file";
  // oxlint-disable-next-line no-control-regex -- control characters are what is looked for
  if (/[/\\\u0000-\u001f\u007f]/.test(name)) return "holds a separator or a control character";
  if (Buffer.byteLength(name) > longest) return `is longer than ${longest} bytes`;
  return name === envelopeName ? "is reserved for the archive's envelope" : undefined;
}
