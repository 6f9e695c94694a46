/** What the bridge network makes on the host: the bridge itself, taps, forwarding, firewall rules. All repeatable. */
import { join } from "node:path";
import { isFault, Fault, writeFileAtomically, type Abortable } from "@cocoon/core";
import { removeRules, writeRules, type BridgePort } from "./bridge-rules.ts";
import type { BridgeSettings } from "./bridge-settings.ts";
import { HostCommands } from "./host-commands.ts";

export class BridgeHost {
  readonly #settings: BridgeSettings;
  readonly #commands: HostCommands;

  constructor(settings: BridgeSettings) {
    this.#settings = settings;
    this.#commands = new HostCommands(settings);
  }

  async ensureBridge(options: Abortable): Promise<void> {
    const { bridge, gateway, range } = this.#settings;
    try {
      if (!(await this.#exists(bridge, options))) {
        await this.#ip(["link", "add", "name", bridge, "type", "bridge"], options);
      }
      await this.#ip(["address", "replace", `${gateway}/${range.prefix}`, "dev", bridge], options);
      await this.#ip(["link", "set", "dev", bridge, "up"], options);
      await this.#commands.setSysctl("net.ipv4.ip_forward", "1", options);
      for (const name of ["all", "default", bridge]) {
        await this.#commands.setSysctl(`net.ipv4.conf.${name.replaceAll(".", "/")}.rp_filter`, "0", options);
      }
    } catch (error) {
      if (isFault(error, "internal") && /not permitted|permission/i.test(error.message)) {
        throw new Fault("forbidden", "the bridge network needs root (CAP_NET_ADMIN)", { cause: error });
      }
      throw error;
    }
  }

  async ensureTap(tap: string, options: Abortable): Promise<void> {
    const { bridge, connectVms } = this.#settings;
    if (!(await this.#exists(tap, options))) {
      await this.#ip(
        ["tuntap", "add", "dev", tap, "mode", "tap", "vnet_hdr", "user", String(process.getuid?.() ?? 0)],
        options,
      );
    }
    await this.#ip(["link", "set", "dev", tap, "master", bridge], options);
    // Ports that are isolated reach the bridge itself, and so the way out, but not each other.
    const isolated = connectVms ? "off" : "on";
    await this.#ip(["link", "set", "dev", tap, "type", "bridge_slave", "isolated", isolated], options);
    await this.#ip(["link", "set", "dev", tap, "up"], options);
  }

  async removeTap(tap: string, options: Abortable): Promise<void> {
    if (await this.#exists(tap, options)) await this.#ip(["link", "delete", "dev", tap], options);
  }

  /** Taps of ours on this bridge. */
  async listTaps(options: Abortable): Promise<string[]> {
    const { stdout } = await this.#commands.run(
      "ip",
      ["-o", "link", "show", "master", this.#settings.bridge, "type", "tun"],
      { ...options, acceptCodes: [0, 1] },
    );
    return [...stdout.matchAll(/^\d+: (?<name>bt[^:@]+)[:@]/gm)].map(({ groups }) => groups?.["name"] ?? "");
  }

  /** Replaces all our rules in one step. */
  async loadRules(ports: readonly BridgePort[], options: Abortable): Promise<void> {
    const { bridge, subnet, denied } = this.#settings;
    await this.#nft(writeRules({ bridge, subnet, denied, ports }), options);
  }

  async remove(options: Abortable): Promise<void> {
    const { bridge } = this.#settings;
    await this.#nft(removeRules(bridge), options);
    if (await this.#exists(bridge, options)) await this.#ip(["link", "delete", "dev", bridge], options);
  }

  async #nft(rules: string, options: Abortable): Promise<void> {
    const path = join(this.#settings.directory, "rules.nft");
    await writeFileAtomically(path, `${rules}\n`, { mode: 0o600, sync: false });
    await this.#commands.run("nft", ["-f", path], options);
  }

  #exists(device: string, options: Abortable): Promise<boolean> {
    return this.#commands.succeeds("ip", ["link", "show", "dev", device], options);
  }

  async #ip(args: readonly string[], options: Abortable): Promise<void> {
    await this.#commands.run("ip", args, options);
  }
}
