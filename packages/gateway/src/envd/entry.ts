/** A file as the Filesystem service describes it, from what the guest says. */
import type { GuestRecord } from "../guest/protocol.ts";

export function readEntry(record: GuestRecord): Record<string, unknown> {
  const { name, type, path, size, mode, permissions, owner, group, modifiedTime, symlinkTarget } = record;
  const metadata = readPairs(record["metadata"]);
  return {
    name,
    type: `FILE_TYPE_${String(type)}`,
    path,
    size: String(size), // int64
    mode,
    permissions,
    owner,
    group,
    modifiedTime,
    ...(typeof symlinkTarget === "string" ? { symlinkTarget, isSymlink: true } : {}),
    ...(metadata ? { metadata } : {}),
  };
}

/** `key=value` texts. */
export function readPairs(value: unknown): Record<string, string> | undefined {
  if (!Array.isArray(value)) return undefined;
  const pairs = value.filter((each): each is string => typeof each === "string" && each.includes("="));
  return Object.fromEntries(
    pairs.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]),
  );
}

/** An event of a watch; undefined for a message that is none. */
export function readWatchEvent(record: GuestRecord): Record<string, unknown> | undefined {
  const { event, changed } = record;
  if (typeof event !== "string" || typeof changed !== "string") return undefined;
  const entry = record["path"] === undefined ? {} : { entry: readEntry(record) };
  return { name: changed, type: `EVENT_TYPE_${event}`, ...entry };
}
