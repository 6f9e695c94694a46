/** Ends programs by the directory that they work on. */
import { readdirSync, readFileSync } from "node:fs";

/** Kills every other process whose command line or environment names the directory; returns their ids. */
export function endProgramsBelow(directory: string): number[] {
  const ended = readdirSync("/proc")
    .filter(
      (entry) => /^\d+$/.test(entry) && Number(entry) !== process.pid && namesDirectory(entry, directory),
    )
    .map(Number);
  for (const pid of ended) tryKill(pid);
  return ended;
}

function namesDirectory(pid: string, directory: string): boolean {
  try {
    return ["cmdline", "environ"].some((file) =>
      readFileSync(`/proc/${pid}/${file}`, "utf8").includes(`${directory}/`),
    );
  } catch {
    return false; // it ended meanwhile, or belongs to another user
  }
}

function tryKill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // it ended meanwhile
  }
}
