/**
 * Address leases that another program writes: dnsmasq's text, or the JSON list of the cocoon-net daemon. The format
 * is known by the first byte. A row that cannot be read is skipped; of two rows for one MAC the later one counts; rows do
 * not expire here, since a guest keeps using an address that its server has long forgotten.
 */
import { readFile, stat } from "node:fs/promises";
import { isIPv4 } from "node:net";
import { Fault, systemCode, writeFileAtomically } from "@cocoon/core";
import * as z from "zod";

export interface Lease {
  /** Lower case, with colons. */
  readonly mac: string;
  readonly ip: string;
  /** Absent: never. */
  readonly expiresAt?: Date;
}

const maxFileBytes = 64 * 1024 * 1024;

export function parseLeases(text: string): Lease[] {
  const first = text.trimStart()[0];
  if (first === undefined) return [];
  return first === "[" || first === "{" || text.trim() === "null"
    ? parseJsonLeases(text)
    : parseDnsmasqLeases(text);
}

/** `EXPIRY MAC IP HOSTNAME CLIENT-ID`; the expiry in seconds, 0 = never. Lines of IPv6 leases look different. */
function parseDnsmasqLeases(text: string): Lease[] {
  return text.split("\n").flatMap((line) => {
    const [expiry = "", mac = "", ip = "", hostname] = line.trim().split(/\s+/);
    if (hostname === undefined || !/^\d+$/.test(expiry) || !isMac(mac) || !isIPv4(ip)) return [];
    const seconds = Number(expiry);
    return [
      { mac: mac.toLowerCase(), ip, ...(seconds === 0 ? {} : { expiresAt: new Date(seconds * 1000) }) },
    ];
  });
}

const rowSchema = z.object({ mac: z.string(), ip: z.string(), expiry: z.string() });
const rfc3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/;

function parseJsonLeases(text: string): Lease[] {
  const value: unknown = JSON.parse(text);
  const rows: unknown[] = Array.isArray(value) ? value : [];
  return rows.flatMap((row) => {
    const parsed = rowSchema.safeParse(row);
    if (!parsed.success || !isMac(parsed.data.mac) || !isIPv4(parsed.data.ip)) return [];
    if (!rfc3339.test(parsed.data.expiry)) return [];
    const { mac, ip, expiry } = parsed.data;
    return [{ mac: mac.toLowerCase(), ip, expiresAt: new Date(expiry) }];
  });
}

function isMac(text: string): boolean {
  return /^[0-9a-f]{2}(?::[0-9a-f]{2}){5}$/i.test(text);
}

/** The same list in the JSON format, for agents that read it. */
export async function writeLeases(path: string, leases: readonly Lease[]): Promise<void> {
  const rows = leases.map(({ mac, ip, expiresAt }) => ({
    mac,
    ip,
    expiry: (expiresAt ?? farFuture).toISOString().replace(/\.\d+Z$/, "Z"),
  }));
  await writeFileAtomically(path, rows.length === 0 ? "null\n" : `${JSON.stringify(rows, undefined, 2)}\n`);
}

const farFuture = new Date("9999-12-31T00:00:00Z");

/** Looks addresses up in such a file, which is read again only when it has changed. */
export class LeaseFile {
  readonly path: string;
  #stamp = "";
  #byMac: ReadonlyMap<string, Lease> = new Map();

  constructor(path: string) {
    this.path = path;
  }

  /** Undefined: no lease, or no such file. */
  async tryFind(mac: string): Promise<Lease | undefined> {
    await this.#refresh();
    return this.#byMac.get(mac.toLowerCase());
  }

  async list(): Promise<readonly Lease[]> {
    await this.#refresh();
    return [...this.#byMac.values()];
  }

  async #refresh(): Promise<void> {
    let status: Awaited<ReturnType<typeof stat>>;
    try {
      status = await stat(this.path);
    } catch (error) {
      if (systemCode(error) !== "ENOENT") throw error;
      this.#stamp = "";
      this.#byMac = new Map();
      return;
    }
    const stamp = `${status.ino}-${status.mtimeMs}-${status.size}`;
    if (stamp === this.#stamp) return;
    if (status.size > maxFileBytes)
      throw new Fault("tooLarge", `${this.path} is larger than ${maxFileBytes} bytes`);
    const leases = this.#parse(await readFile(this.path, "utf8"));
    this.#byMac = new Map(leases.map((lease) => [lease.mac, lease]));
    this.#stamp = stamp;
  }

  #parse(text: string): Lease[] {
    try {
      return parseLeases(text);
    } catch (error) {
      // Not "no lease": its writer may not use a rename.
      throw new Fault("unavailable", `${this.path} cannot be read as a list of leases`, { cause: error });
    }
  }
}

/** Looks an address up by MAC; the first file that knows one counts. */
export function openLeaseFinder(paths: readonly string[]): (mac: string) => Promise<string | undefined> {
  const files = paths.map((path) => new LeaseFile(path));
  return async (mac) => {
    for (const file of files) {
      const lease = await file.tryFind(mac);
      if (lease) return lease.ip;
    }
    return undefined;
  };
}
