/**
 * Where images may come from, as the host's owner decides. Without a policy everything is allowed: that is for a command that
 * a user of this host types. A node that runs what users of a cluster name has one.
 */
import type { LookupFunction } from "node:net";
import { lookup as lookupAddress } from "node:dns";
import { realpath } from "node:fs/promises";
import { BlockList, isIP } from "node:net";
import { sep } from "node:path";
import { Fault, ignoreMissing } from "@cocoon/core";

export interface ImagePolicy {
  /** Directories below which files of this host may be images. None: no files at all. */
  readonly fileRoots: readonly string[];
  /** Hosts that may be fetched from although they have private, loopback or link-local addresses. */
  readonly privateHosts: readonly string[];
}

/** `forbidden` unless the file, links resolved, lies below one of the allowed directories. */
export async function assertFileAllowed(path: string, policy: ImagePolicy | undefined): Promise<void> {
  if (!policy) return;
  const refused = new Fault(
    "forbidden",
    `image ${path}: files of this host are not allowed there; allowed below: ${policy.fileRoots.join(", ") || "nowhere"} (VK_IMAGE_FILE_ROOTS)`,
  );
  const actual = await ignoreMissing(realpath(path));
  for (const root of policy.fileRoots) {
    const allowed = await ignoreMissing(realpath(root));
    if (allowed !== undefined && actual?.startsWith(allowed.endsWith(sep) ? allowed : `${allowed}${sep}`))
      return;
  }
  throw refused;
}

const notPublic = new BlockList();
for (const [network, prefix] of [
  ["0.0.0.0", 8],
  ["10.0.0.0", 8],
  ["100.64.0.0", 10],
  ["127.0.0.0", 8],
  ["169.254.0.0", 16],
  ["172.16.0.0", 12],
  ["192.0.0.0", 24],
  ["192.168.0.0", 16],
  ["198.18.0.0", 15],
  ["224.0.0.0", 3],
] as const)
  notPublic.addSubnet(network, prefix, "ipv4");
for (const [network, prefix] of [
  ["::", 127],
  ["fc00::", 7],
  ["fe80::", 10],
  ["ff00::", 8],
] as const)
  notPublic.addSubnet(network, prefix, "ipv6");

/** Whether the address belongs to the public internet. Addresses in others' clothes (mapped, translated) do not. */
export function isPublicAddress(address: string): boolean {
  const version = isIP(address);
  if (version === 4) return !notPublic.check(address, "ipv4");
  if (version !== 6 || /^(?:::ffff:|64:ff9b:|2002:)/i.test(address)) return false;
  return !notPublic.check(address, "ipv6");
}

/** Throws for a host that is not allowed by its name or literal address alone. */
export function assertHostAllowed(url: URL, policy: ImagePolicy | undefined): void {
  if (!policy || isExcepted(url.hostname, policy)) return;
  const literal = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(literal) !== 0 && !isPublicAddress(literal)) throw refuseHost(url.hostname, literal);
}

/** Name resolution that refuses addresses which are not public: what was checked is what is connected to. */
export function guardedLookup(policy: ImagePolicy | undefined): LookupFunction {
  return (hostname, options, done) => {
    lookupAddress(hostname, { ...options, all: true }, (error, found) => {
      if (error) return done(error, "");
      const wrong = found.find(({ address }) => !isPublicAddress(address));
      if (policy && wrong && !isExcepted(hostname, policy))
        return done(refuseHost(hostname, wrong.address), "");
      const [first] = found;
      if (options.all) return done(null, found);
      return done(null, first?.address ?? "", first?.family);
    });
  };
}

function isExcepted(hostname: string, { privateHosts }: ImagePolicy): boolean {
  return privateHosts.includes(hostname.replace(/^\[|\]$/g, "").toLowerCase());
}

function refuseHost(hostname: string, address: string): Fault {
  return new Fault(
    "forbidden",
    `images are not fetched from ${hostname} (${address}): the address is not public; allow the host with VK_IMAGE_PRIVATE_HOSTS`,
  );
}
