/** A benchmark that is interrupted ends the programs that it started: everything it awaits takes this signal. */
export function interruptSignal(): AbortSignal {
  const interrupted = new AbortController();
  for (const name of ["SIGINT", "SIGTERM", "SIGHUP"] as const)
    process.once(name, () => interrupted.abort(new Error(`interrupted by ${name}`)));
  return interrupted.signal;
}
