/** IPv4 addresses as numbers: ranges to hand out from. */
import { Fault } from "@cocoon/core";

export interface Ipv4Range {
  /** Network address and prefix length, for example 10.88.0.0/24. */
  readonly network: number;
  readonly prefix: number;
  /** First and last address that may be handed out. */
  readonly first: number;
  readonly last: number;
}

export function parseIpv4(text: string): number {
  const bytes = text.split(".").map((part) => (/^\d{1,3}$/.test(part) ? Number(part) : 256));
  if (bytes.length !== 4 || bytes.some((byte) => byte > 255)) {
    throw new Fault("invalid", `"${text}" is no IPv4 address`);
  }
  return bytes.reduce((value, byte) => value * 256 + byte, 0);
}

export function formatIpv4(value: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join(".");
}

/** All host addresses of a subnet. */
export function parseSubnet(text: string): Ipv4Range {
  const [address = "", prefixText = ""] = text.split("/");
  const prefix = Number(prefixText);
  if (!/^\d{1,2}$/.test(prefixText) || prefix < 8 || prefix > 30) {
    throw new Fault("invalid", `"${text}" is no IPv4 subnet between /8 and /30`);
  }
  const size = 2 ** (32 - prefix);
  const network = Math.floor(parseIpv4(address) / size) * size;
  return { network, prefix, first: network + 1, last: network + size - 2 };
}

export function contains(range: Ipv4Range, address: number): boolean {
  return address >= range.network && address < range.network + 2 ** (32 - range.prefix);
}

export function formatSubnet({ network, prefix }: Ipv4Range): string {
  return `${formatIpv4(network)}/${prefix}`;
}
