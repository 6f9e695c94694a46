/** Names that are near to one that a user typed. */

/** How many letters must be changed, added, taken away or swapped with their neighbour to get from one to the other. */
export function editDistance(left: string, right: string): number {
  let before: number[] = [];
  let previous = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let row = 1; row <= left.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= right.length; column += 1) {
      const same = left[row - 1] === right[column - 1] ? 0 : 1;
      const swapped =
        row > 1 && column > 1 && left[row - 1] === right[column - 2] && left[row - 2] === right[column - 1]
          ? (before[column - 2] ?? 0) + 1
          : Infinity;
      current[column] = Math.min(
        (previous[column] ?? 0) + 1,
        (current[column - 1] ?? 0) + 1,
        (previous[column - 1] ?? 0) + same,
        swapped,
      );
    }
    [before, previous] = [previous, current];
  }
  return previous[right.length] ?? 0;
}

const longestName = 253;
const mostSuggestions = 3;

export function nearNames(wanted: string, candidates: Iterable<string>): readonly string[] {
  if (wanted === "" || wanted.length > longestName) return [];
  const allowed = Math.max(1, Math.min(3, Math.floor(wanted.length / 3)));
  return [...new Set(candidates)]
    .map((name) => ({ name, distance: distanceTo(wanted, name) }))
    .filter(({ distance }) => distance <= allowed)
    .sort((one, other) => one.distance - other.distance || one.name.localeCompare(other.name))
    .slice(0, mostSuggestions)
    .map(({ name }) => name);
}

/** A name that only lacks its end counts as near. */
function distanceTo(wanted: string, name: string): number {
  return wanted.length >= 3 && name.startsWith(wanted) ? 1 : editDistance(wanted, name);
}

/** `; did you mean demo?`, or nothing. */
export function didYouMean(wanted: string, candidates: Iterable<string>): string {
  const near = nearNames(wanted, candidates);
  return near.length === 0 ? "" : `; did you mean ${near.join(" or ")}?`;
}
