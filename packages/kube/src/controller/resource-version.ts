/** Versions of objects and collections are numbers that only grow; as text, because they may exceed 2^53. */

/** Whether everything up to `wanted` is included in `seen`. False when one of them is no version at all. */
export function includesVersion(seen: string | undefined, wanted: string | undefined): boolean {
  if (!isVersion(seen) || !isVersion(wanted)) return false;
  return seen.length === wanted.length ? seen >= wanted : seen.length > wanted.length;
}

function isVersion(text: string | undefined): text is string {
  return text !== undefined && /^[1-9][0-9]*$/.test(text);
}
