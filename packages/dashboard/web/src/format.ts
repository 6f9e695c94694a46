/** Values as people read them. */
const units = [
  ["d", 86_400],
  ["h", 3_600],
  ["m", 60],
  ["s", 1],
] as const;

export function formatAge(since: string, now = Date.now()): string {
  const at = Date.parse(since);
  if (Number.isNaN(at)) return "";
  return formatSeconds(Math.max(0, Math.round((now - at) / 1000)));
}

function formatSeconds(seconds: number): string {
  const index = units.findIndex(([, size]) => seconds >= size);
  const [unit, size] = units[index] ?? ["s", 1];
  const [nextUnit, nextSize] = units[index + 1] ?? ["", 1];
  const whole = Math.floor(seconds / size);
  const rest = Math.floor((seconds % size) / nextSize);
  return whole < 10 && rest > 0 && nextUnit !== "" ? `${whole}${unit}${rest}${nextUnit}` : `${whole}${unit}`;
}

export function formatBytes(bytes: number): string {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = bytes;
  let at = 0;
  while (value >= 1024 && at < names.length - 1) {
    value /= 1024;
    at += 1;
  }
  return `${value >= 100 || at === 0 ? Math.round(value) : value.toFixed(1)} ${names[at] ?? ""}`;
}

export function formatTime(text: string): string {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? "" : at.toLocaleString();
}

export function shortDigest(digest: string): string {
  return digest.replace(/^sha256:/, "").slice(0, 12);
}

/** A quantity of bytes that Kubernetes writes without a unit is hard to read. */
export function formatQuantity(text: string): string {
  return /^\d+$/.test(text) ? formatBytes(Number(text)) : text;
}

/** "pushing 12 of 64 MiB" is 0.1875; undefined for what has no such numbers. */
export function readProgress(text: string): number | undefined {
  const [, done = "", total = ""] = /\b(\d+) of (\d+)\b/.exec(text) ?? [];
  return Number(total) > 0 ? Math.min(1, Number(done) / Number(total)) : undefined;
}

const suffixes: Readonly<Record<string, number>> = {
  "": 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 1024,
  Mi: 1024 ** 2,
  Gi: 1024 ** 3,
  Ti: 1024 ** 4,
};

/** A quantity of Kubernetes as a number; 0 for what is none. */
export function readQuantity(text: string): number {
  const [, number = "", suffix = ""] = /^(\d+(?:\.\d+)?)([A-Za-z]*)$/.exec(text) ?? [];
  return Number(number) * (suffixes[suffix] ?? 0);
}
