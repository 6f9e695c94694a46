/** Addresses of network interfaces that we make up: locally administered, one receiver. */
import { randomBytes } from "node:crypto";

export function newMac(random: (bytes: number) => Buffer = randomBytes): string {
  const bytes = random(6);
  bytes[0] = ((bytes[0] ?? 0) & 0b1111_1100) | 0b0000_0010;
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}
