/** Where a server listens, as people write it: `:8080`, `127.0.0.1:8080`, `[::1]:8080`. */
import { Fault } from "./fault.ts";

export interface ListenAddress {
  readonly host: string;
  readonly port: number;
}

/** Without a host: every address of this machine. `setting` is what the error names: a flag or a variable. */
export function readListenAddress(text: string, setting: string): ListenAddress {
  const match = /^(?:\[(?<v6>[0-9a-fA-F:.]+)\]|(?<host>[^:]*)):(?<port>\d{1,5})$/.exec(text);
  const port = Number(match?.groups?.["port"]);
  if (!match || port > 65_535)
    throw new Fault("invalid", `${setting}: "${text.slice(0, 100)}" is not of the form [host]:port`);
  return { host: match.groups?.["v6"] ?? (match.groups?.["host"] || "0.0.0.0"), port };
}
