/** What `--version` prints and every executable logs at start: version, revision, build time. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

export interface BuildInfo {
  readonly version: string;
  readonly revision: string;
  readonly builtAt: string;
}

/** A release bundle defines this constant; sources run directly read it from the checkout instead. */
declare const COCOON_BUILD_INFO: BuildInfo | undefined;

let known: BuildInfo | undefined;

export function buildInfo(): BuildInfo {
  known ??= typeof COCOON_BUILD_INFO === "undefined" ? fromCheckout() : COCOON_BUILD_INFO;
  return known;
}

export function versionText(program: string): string {
  const info = buildInfo();
  return `${program} ${info.version} (revision ${info.revision}, built ${info.builtAt})\n`;
}

function fromCheckout(): BuildInfo {
  const manifestPath = fileURLToPath(new URL("../package.json", import.meta.url));
  const manifest: unknown = existsSync(manifestPath) ? JSON.parse(readFileSync(manifestPath, "utf8")) : {};
  const version =
    typeof manifest === "object" && manifest !== null && "version" in manifest
      ? String(manifest.version)
      : "0.0.0";
  const builtAt = existsSync(manifestPath) ? statSync(manifestPath).mtime.toISOString() : "unknown";
  return { version, revision: gitRevision(fileURLToPath(new URL(".", import.meta.url))), builtAt };
}

function gitRevision(directory: string): string {
  try {
    const git = (...args: string[]) =>
      execFileSync("git", args, {
        cwd: directory,
        encoding: "utf8",
        stdio: ["ignore", "pipe", "ignore"],
      }).trim();
    return `${git("rev-parse", "--short=12", "HEAD")}${git("status", "--porcelain", "--untracked-files=no") ? "-dirty" : ""}`;
  } catch {
    return "unknown"; // an unpacked tarball has no history; the version still identifies it
  }
}
