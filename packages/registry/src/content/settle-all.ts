/** Waits for all, so that no write continues after the answer; then the first failure is thrown. */
export async function settleAll(steps: readonly Promise<void>[]): Promise<void> {
  const results = await Promise.allSettled(steps);
  const failed = results.find((result) => result.status === "rejected");
  if (failed) throw failed.reason;
}
