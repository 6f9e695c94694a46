/** How long a stream waits after a small piece, and what is small. */
const pauseMs = 1;
const smallBytes = 8 * 1024;

/** The first piece goes out at once; what follows a small piece within a millisecond goes out together. */
export function gathering(
  bytes: number,
  done: (error?: Error | null) => void,
): (error?: Error | null) => void {
  if (bytes === 0 || bytes >= smallBytes) return done;
  return (error) => void (error ? done(error) : setTimeout(done, pauseMs));
}
