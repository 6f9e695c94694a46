/** Messages that tools find again inside what the API server makes of them. */
export function structured(reason: string, message: unknown): string {
  return `___${JSON.stringify({ reason, message })}___`;
}
