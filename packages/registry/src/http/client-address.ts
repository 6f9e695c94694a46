/** The address of a client, also behind proxies that are trusted to name it. */
import type { IncomingMessage } from "node:http";
import { BlockList, isIP, isIPv4 } from "node:net";
import { Fault } from "@cocoon/core";

export class TrustedProxies {
  readonly #list = new BlockList();

  /** Addresses and networks, such as 10.0.0.0/8 or fd00::/8. */
  constructor(networks: readonly string[] = []) {
    for (const text of networks) this.#add(text);
  }

  #add(text: string): void {
    const [address = "", prefix] = text.split("/");
    const family = isIPv4(address) ? "ipv4" : "ipv6";
    const bits = prefix === undefined ? undefined : Number(prefix);
    const valid =
      bits === undefined || (Number.isInteger(bits) && bits >= 0 && bits <= (family === "ipv4" ? 32 : 128));
    if (isIP(address) === 0 || !valid)
      throw new Fault(
        "invalid",
        `--trusted-proxies: "${text}" is not an address or network such as 10.0.0.0/8`,
      );
    if (bits === undefined) this.#list.addAddress(address, family);
    else this.#list.addSubnet(address, bits, family);
  }

  includes(address: string): boolean {
    const plain = toPlainAddress(address);
    return isIP(plain) !== 0 && this.#list.check(plain, isIPv4(plain) ? "ipv4" : "ipv6");
  }

  /** The nearest address that is not a trusted proxy. Headers of others say nothing. */
  findClient(request: IncomingMessage): string {
    const peer = toPlainAddress(request.socket.remoteAddress ?? "");
    if (!this.includes(peer)) return peer;
    const header = request.headers["x-forwarded-for"];
    const hops = (Array.isArray(header) ? header.join(",") : (header ?? ""))
      .split(",")
      .map((hop) => hop.trim());
    for (const hop of hops.reverse()) {
      if (isIP(toPlainAddress(hop)) === 0) return peer;
      if (!this.includes(hop)) return toPlainAddress(hop);
    }
    return peer;
  }
}

function toPlainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, "");
}
