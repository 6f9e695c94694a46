/** Settings of the CNI network. */
import type { Logger } from "@cocoon/core";
import type { PluginCall } from "./plugins.ts";

export interface CniNetworkOptions {
  /** What each machine has of the network. */
  readonly directory: string;
  /** Where configuration lists are. */
  readonly confDirectory?: string;
  /** Where plugins are; the first directory that has one wins. */
  readonly binDirectories?: readonly string[];
  /** Name of the list; default the first by file name. */
  readonly list?: string;
  /** For one call of one plugin. */
  readonly timeoutMs?: number;
  /** Name servers of guests whose request and network name none. */
  readonly dns?: readonly string[];
  /**
   * Whether plugins may remove what is not one of our attachments. Only where no other runtime uses the same lists:
   * to the plugins, its attachments are invalid.
   */
  readonly collectGarbage?: boolean;
  /** Where to publish addresses as JSON, for agents that read such a file. */
  readonly leasesPath?: string;
  readonly onCall?: (call: PluginCall) => void;
  readonly log?: Logger;
}

export const defaultConfDirectory = "/etc/cni/net.d";
/** Where the projects' own packages put plugins, and where Debian's does. */
export const defaultBinDirectories = ["/opt/cni/bin", "/usr/lib/cni"];
export const defaultPluginTimeoutMs = 30_000;
