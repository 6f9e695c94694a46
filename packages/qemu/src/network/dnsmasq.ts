/**
 * dnsmasq as DHCP server of a bridge. It runs in its own session and outlives us, since guests renew their leases while
 * no manager runs; the next open finds it by process identity. It only knows the machines that the hosts file names.
 *
 *   DIRECTORY/dnsmasq.hosts     MAC,IP,NAME for each VM; read again on SIGHUP
 *   DIRECTORY/dnsmasq.leases    what it handed out
 *   DIRECTORY/dnsmasq.json      the process
 *   DIRECTORY/dnsmasq.log
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import {
  Fault,
  isAlive,
  lastLines,
  processIdentitySchema,
  signalProcess,
  sleep,
  startProgram,
  stopProcess,
  tryReadFile,
  writeFileAtomically,
  type Abortable,
  type ProcessIdentity,
} from "@cocoon/core";
import { formatIpv4, type Ipv4Range } from "./ipv4.ts";
import { parseLeases, type Lease } from "@cocoon/vm/engine";

export interface DnsmasqOptions {
  readonly directory: string;
  readonly bridge: string;
  readonly range: Ipv4Range;
  readonly mask: string;
  readonly gateway: string;
  readonly dns: readonly string[];
  readonly netns?: string;
}

export interface DhcpHost {
  readonly mac: string;
  readonly ip: string;
  readonly hostname: string;
}

const leaseTime = "1h";

export class Dnsmasq {
  readonly #options: DnsmasqOptions;

  constructor(options: DnsmasqOptions) {
    this.#options = options;
  }

  get leasesPath(): string {
    return join(this.#options.directory, "dnsmasq.leases");
  }

  /** Tells it who may have which address; starts it when it does not run. */
  async serve(hosts: readonly DhcpHost[], options: Abortable): Promise<void> {
    const lines = hosts.map(({ mac, ip, hostname }) => `${mac},${ip},${hostname}\n`);
    await writeFileAtomically(this.#path("dnsmasq.hosts"), lines.join(""), { mode: 0o644 });
    const running = await this.#running();
    if (running && signalProcess(running, "SIGHUP")) return;
    await this.#start(options);
  }

  /** It gives no address while another client's lease of it runs; such leases are taken out. */
  async forget(macs: ReadonlySet<string>, options: Abortable): Promise<void> {
    const text = (await tryReadFile(this.leasesPath)) ?? "";
    const kept = text.split("\n").filter((line) => !macs.has(line.split(" ")[1]?.toLowerCase() ?? ""));
    if (kept.join("\n") === text) return;
    await this.stop();
    await writeFileAtomically(this.leasesPath, kept.join("\n"), { mode: 0o644 });
    await this.#start(options);
  }

  async leases(): Promise<Lease[]> {
    return parseLeases((await tryReadFile(this.leasesPath)) ?? "");
  }

  async stop(): Promise<void> {
    const running = await this.#running();
    if (running) await stopProcess(running);
  }

  async #running(): Promise<ProcessIdentity | undefined> {
    const text = await tryReadFile(this.#path("dnsmasq.json"));
    if (text === undefined) return undefined;
    const parsed = processIdentitySchema.safeParse(JSON.parse(text));
    return parsed.success && isAlive(parsed.data) ? parsed.data : undefined;
  }

  async #start({ signal }: Abortable): Promise<void> {
    const { netns } = this.#options;
    const logFile = this.#path("dnsmasq.log");
    const words = ["dnsmasq", ...this.#arguments()];
    const [command = "", ...args] = netns === undefined ? words : ["ip", "netns", "exec", netns, ...words];
    const program = await startProgram({ name: "dnsmasq", command, args, logFile, detached: true });
    await writeFileAtomically(this.#path("dnsmasq.json"), JSON.stringify(program.identity));
    // It prints nothing when it is ready, and ends at once when it cannot be. Before it listens for SIGHUP that kills it.
    for (let waitedMs = 0; waitedMs < startMs && !listensForHangup(program.identity.pid); waitedMs += pollMs)
      await sleep(pollMs, { signal });
    await sleep(settleMs, { signal });
    if (!isAlive(program.identity)) {
      throw new Fault("unavailable", `dnsmasq does not start: ${lastLines(logFile, 3).join(" | ")}`);
    }
  }

  #arguments(): string[] {
    const { bridge, range, mask, gateway, dns } = this.#options;
    return [
      "--keep-in-foreground",
      "--conf-file=/dev/null",
      "--no-resolv",
      "--no-hosts",
      "--no-ping",
      "--port=0",
      `--interface=${bridge}`,
      "--bind-interfaces",
      "--except-interface=lo",
      "--log-facility=-",
      "--dhcp-authoritative",
      `--dhcp-range=${formatIpv4(range.network)},static,${mask},${leaseTime}`,
      `--dhcp-hostsfile=${this.#path("dnsmasq.hosts")}`,
      `--dhcp-leasefile=${this.leasesPath}`,
      `--dhcp-option=option:router,${gateway}`,
      ...(dns.length > 0 ? [`--dhcp-option=option:dns-server,${dns.join(",")}`] : []),
      "--pid-file=",
      "--user=root",
      "--group=root",
    ];
  }

  #path(name: string): string {
    return join(this.#options.directory, name);
  }
}

const settleMs = 100;
const pollMs = 20;
const startMs = 10_000;

/** Whether it has a handler for SIGHUP, the first of the signals; true when it is gone: there is nothing to wait for. */
function listensForHangup(pid: number): boolean {
  try {
    const caught = /^SigCgt:\s+([0-9a-f]+)$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1"))?.[1];
    return (BigInt(`0x${caught ?? "0"}`) & 1n) === 1n;
  } catch {
    return true;
  }
}
