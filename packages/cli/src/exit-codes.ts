/** What the program's exit code means. exec, ssh and kubectl pass the code of the command on. */
export const exitCode = {
  done: 0,
  failed: 1,
  usage: 2,
  notRunning: 3,
  timedOut: 4,
  interrupted: 130,
} as const;

export const exitCodeMeanings: Readonly<Record<keyof typeof exitCode, string>> = {
  done: "done",
  failed: "failed",
  usage: "called wrongly",
  notRunning: "the platform of this machine is not running",
  timedOut: "the time to wait was over; what was asked for stays asked",
  interrupted: "interrupted",
};

export const exitCodeText = Object.entries(exitCode)
  .map(([name, code]) => `${code} ${exitCodeMeanings[name as keyof typeof exitCode]}`)
  .join(", ");
