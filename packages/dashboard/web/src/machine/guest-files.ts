/** Files of a machine, by commands that every Linux guest has: stat, cat, mv, sha256sum. Names are arguments, never part of a script. */
import type { MachineRow } from "../../../src/shared/rows.ts";
import { runCommand, type CommandResult, type CommandTarget } from "../api/remote-command.ts";

export interface GuestFile {
  readonly name: string;
  readonly kind: "directory" | "file" | "other";
  readonly sizeBytes: number;
  readonly changedAt: string;
}

export interface Listing {
  readonly files: readonly GuestFile[];
  /** Names that cannot be shown, because they contain line breaks. */
  readonly unreadable: number;
}

const maxListBytes = 4 * 1024 * 1024;
export const maxFileBytes = 256 * 1024 * 1024;

type Guest = Pick<MachineRow, "namespace" | "name" | "container">;

function getTarget({ namespace, name, container }: Guest): CommandTarget {
  return { namespace, pod: name, container };
}

async function run(
  machine: Guest,
  script: string,
  options: {
    args: readonly string[];
    input?: Blob;
    maxOutputBytes?: number;
    onProgress?: (sent: number) => void;
    signal?: AbortSignal;
  },
): Promise<CommandResult> {
  const { args, maxOutputBytes = maxListBytes, ...others } = options;
  const result = await runCommand(getTarget(machine), ["sh", "-c", script, "sh", ...args], {
    ...others,
    maxOutputBytes,
  });
  if (result.exitCode !== 0)
    throw new Error(result.errors.trim() || result.message || `exit code ${result.exitCode}`);
  return result;
}

/** A pattern that matches nothing stays as it is; stat complains about it on the channel that is not read. */
const listScript = `cd -- "$1" || exit 1
stat -c '%f %s %Y %n' -- ./* ./.[!.]* ./..?* 2>/dev/null
exit 0`;

export async function listFiles(
  machine: Guest,
  path: string,
  { signal }: { readonly signal: AbortSignal },
): Promise<Listing> {
  const { output } = await run(machine, listScript, { args: [path], signal });
  return parseListing(new TextDecoder().decode(output));
}

const fileKind = 0o170_000;

/** Lines `MODE-IN-HEX SIZE SECONDS ./NAME`. */
export function parseListing(text: string): Listing {
  const files = new Map<string, GuestFile>();
  let unreadable = 0;
  for (const line of text.split("\n")) {
    if (line === "") continue;
    const match = /^([0-9a-f]{1,8}) (\d+) (\d+) \.\/(.+)$/.exec(line);
    if (!match) {
      unreadable += 1;
      continue;
    }
    const [, mode = "", size = "", seconds = "", name = ""] = match;
    const type = Number.parseInt(mode, 16) & fileKind;
    const kind = type === 0o040_000 ? "directory" : type === 0o100_000 ? "file" : "other";
    files.set(name, {
      name,
      kind,
      sizeBytes: Number(size),
      changedAt: new Date(Number(seconds) * 1000).toISOString(),
    });
  }
  const order = { directory: 0, file: 1, other: 2 };
  return {
    files: [...files.values()].sort(
      (left, right) => order[left.kind] - order[right.kind] || (left.name < right.name ? -1 : 1),
    ),
    unreadable,
  };
}

export async function downloadFile(machine: Guest, path: string): Promise<Uint8Array<ArrayBuffer>> {
  const { output } = await run(machine, 'exec cat -- "$1"', { args: [path], maxOutputBytes: maxFileBytes });
  return output;
}

/** Written beside the target and then renamed, so that a broken upload leaves the old file. Returns the checksum of what arrived. */
export async function uploadFile(
  machine: Guest,
  path: string,
  { input, onProgress }: { readonly input: Blob; readonly onProgress: (sent: number) => void },
): Promise<string> {
  const script = 'part="$1.upload.$$"; cat > "$part" && sha256sum < "$part" && mv -f -- "$part" "$1"';
  const { output } = await run(machine, script, { args: [path], input, onProgress });
  return new TextDecoder().decode(output).slice(0, 64);
}

export async function checksum(bytes: BufferSource): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function joinPath(directory: string, name: string): string {
  return directory.endsWith("/") ? `${directory}${name}` : `${directory}/${name}`;
}

export function parentPath(path: string): string {
  return path.replace(/\/+$/, "").replace(/\/[^/]*$/, "") || "/";
}
