/** Choices by a seeded source of random numbers. */
export type Random = () => number;

export interface Weighted<T> {
  readonly weight: number;
  readonly value: T;
}

export function pick<T>(random: Random, choices: readonly Weighted<T>[]): T | undefined {
  const total = choices.reduce((sum, { weight }) => sum + weight, 0);
  let left = random() * total;
  return choices.find(({ weight }) => (left -= weight) < 0)?.value;
}

export function oneOf<T>(random: Random, values: readonly T[]): T {
  const value = values[Math.floor(random() * values.length)];
  if (value === undefined) throw new Error("nothing to choose from");
  return value;
}

export function chance(random: Random, probability: number): boolean {
  return random() < probability;
}
