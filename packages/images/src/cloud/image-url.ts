/** Names of cloud images: an http(s) or file URL, or an absolute path, with a checksum behind "#" where one is known. */
import { fileURLToPath } from "node:url";
import { Fault } from "@cocoon/core";

export interface CloudImageUrl {
  /** Without the checksum. */
  readonly url: string;
  /** Set for a file of this host. */
  readonly path?: string;
  readonly checksum?: { readonly algorithm: "sha256" | "sha512"; readonly hex: string };
}

/** Undefined when the text names something else, such as an image in a registry. */
export function tryReadImageUrl(text: string): CloudImageUrl | undefined {
  if (!/^(?:https?:\/\/|file:\/\/|\/)/i.test(text)) return undefined;
  const [address, fragment] = splitAt(text, "#");
  const checksum = fragment === undefined ? {} : { checksum: readChecksum(fragment) };
  if (address.startsWith("/")) return { url: address, path: address, ...checksum };
  const url = URL.parse(address);
  if (!url) throw new Fault("invalid", `"${address}" is no URL`);
  if (url.username || url.password) throw new Fault("invalid", "an image URL may not hold a password");
  return { url: address, ...(url.protocol === "file:" ? { path: fileURLToPath(url) } : {}), ...checksum };
}

function splitAt(text: string, separator: string): [string, string | undefined] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, undefined] : [text.slice(0, at), text.slice(at + 1)];
}

/** `sha256=HEX`, `sha256:HEX`, likewise sha512. */
function readChecksum(fragment: string): { readonly algorithm: "sha256" | "sha512"; readonly hex: string } {
  const match = /^(?:(?<algorithm>sha256|sha512)[:=])(?<hex>[0-9a-fA-F]+)$/.exec(fragment)?.groups;
  const algorithm = match?.["algorithm"];
  const hex = match?.["hex"]?.toLowerCase() ?? "";
  if ((algorithm === "sha256" && hex.length === 64) || (algorithm === "sha512" && hex.length === 128)) {
    return { algorithm, hex };
  }
  throw new Fault("invalid", `"#${fragment}" is no checksum: write #sha256=HEX or #sha512=HEX`);
}
