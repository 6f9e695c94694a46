/** How the archive of a COPY step becomes files: a script for the guest's shell. */
import type { CopyStep } from "./build-steps.ts";
import { quoteShell } from "./quote-shell.ts";

export interface CopyRequest extends Omit<CopyStep, "kind" | "hash"> {
  /** Path of the archive in the guest. */
  readonly archive: string;
  /** What a relative destination is relative to; "" is the home of root. */
  readonly directory: string;
}

/**
 * As Dockerfiles have it: a directory's content goes into the destination, a file becomes the destination unless that ends in
 * "/" or is a directory, and a pattern goes into the destination.
 */
export function writeCopyScript({
  archive,
  source,
  destination,
  owner,
  mode,
  directory,
}: CopyRequest): string {
  const into = destination.startsWith("/") || directory === "" ? destination : `${directory}/${destination}`;
  const stage = `${archive}.d`;
  const isPattern = /[*?[]/.test(source);
  const change = [
    owner === "" ? [] : [`chown -R ${quoteShell(owner)} "$f"`],
    mode === "" ? [] : [`chmod -R ${mode} "$f"`],
  ].flat();
  return [
    "set -e",
    `rm -rf ${quoteShell(stage)} && mkdir -p ${quoteShell(stage)}`,
    `tar -xzf ${quoteShell(archive)} -C ${quoteShell(stage)} 2>/dev/null || tar -xf ${quoteShell(archive)} -C ${quoteShell(stage)}`,
    `dest=${quoteShell(into)}`,
    ...(isPattern
      ? [`mkdir -p "$dest" && cp -a ${quoteShell(stage)}/* "$dest"/ && f="$dest"`]
      : [
          `src=${quoteShell(`${stage}/${source.replace(/^\/+/, "")}`)}`,
          `if [ -d "$src" ]; then mkdir -p "$dest" && cp -a "$src"/. "$dest"/ && f="$dest"`,
          `elif [ "\${dest%/}" != "$dest" ] || [ -d "$dest" ]; then mkdir -p "$dest" && cp -a "$src" "$dest"/ && f="$dest"`,
          `else mkdir -p "$(dirname "$dest")" && cp -a "$src" "$dest" && f="$dest"; fi`,
        ]),
    ...change,
    `rm -rf ${quoteShell(stage)} ${quoteShell(archive)}`,
  ].join("\n");
}
