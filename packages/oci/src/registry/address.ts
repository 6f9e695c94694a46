/** Where a registry is and how it may be spoken to: scheme, host and an optional path in front of every repository. */
import { Fault } from "@cocoon/core";

export interface RegistryAddress {
  /** Scheme, host and port, without a slash at the end. */
  readonly origin: string;
  /** Host with its port, as credentials and references name it. */
  readonly host: string;
  /** Path components that stand before every repository name; empty for none. */
  readonly prefix: string;
}

interface AddressRules {
  /**
   * Speak plain HTTP to hosts other than this one. On loopback it is always allowed.
   */
  readonly plainHttp?: boolean;
  /** A CA was given, so a loopback address without a scheme means TLS as well. */
  readonly tls?: boolean;
}

const loopback = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/** Reads `host[:port][/prefix]`, `http://…` or `https://…`. */
export function readRegistryAddress(text: string, rules: AddressRules = {}): RegistryAddress {
  const explicit = /^https?:\/\//.test(text);
  const url = parse(explicit ? text : `https://${text}`, text);
  const local = isLoopbackHost(url.hostname);
  if (!explicit && (rules.plainHttp || local) && !rules.tls) url.protocol = "http:";
  if (url.protocol === "http:" && !local && !rules.plainHttp)
    throw new Fault(
      "invalid",
      `registry ${url.host}: plain HTTP is only used on loopback; use https:// or allow plain HTTP for it`,
    );
  return {
    origin: url.origin,
    host: url.host,
    prefix: url.pathname.replaceAll(/^\/+|\/+$/g, ""),
  };
}

export function isLoopbackHost(hostname: string): boolean {
  return loopback.test(hostname);
}

function parse(text: string, given: string): URL {
  const url = URL.parse(text);
  if (!url || url.hostname === "")
    throw new Fault("invalid", `"${given}" is not a registry address; use host[:port][/prefix]`);
  if (url.username !== "" || url.password !== "")
    throw new Fault("invalid", "a registry address carries no credentials; put them in the docker config");
  if (url.search !== "" || url.hash !== "")
    throw new Fault("invalid", `registry address ${url.host}: a query or fragment has no meaning here`);
  return url;
}
