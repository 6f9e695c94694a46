/** Sizes as people and the Go command write them: binary units, fractions allowed, a bare number is bytes. */
import { Fault } from "@cocoon/core";

const units = ["", "K", "M", "G", "T", "P"] as const;

/** `512M`, `1G`, `1.5g`, `10GiB`, `1073741824`. `invalid`, naming the flag, for anything else. */
export function parseSize(text: string, flag: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([kmgtp]?)(?:i?b)?$/i.exec(text.trim());
  const power = units.indexOf((match?.[2] ?? "").toUpperCase() as (typeof units)[number]);
  const bytes = Math.trunc(Number(match?.[1]) * 1024 ** power);
  if (!match || power < 0 || !Number.isSafeInteger(bytes))
    throw new Fault("invalid", `invalid --${flag} "${text}": use a size such as 512M or 10G`);
  return bytes;
}

/** `1GiB`, `1.5GiB`, `512MiB`: what tables show. */
export function formatSize(bytes: number): string {
  if (bytes < 1024) return `${bytes}B`;
  const power = Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  const digits = Number.isInteger(value) ? String(value) : value.toPrecision(4).replace(/\.?0+$/, "");
  return `${digits}${units[power] ?? ""}iB`;
}
