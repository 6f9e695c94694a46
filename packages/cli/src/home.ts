/** Where the cluster of this machine lives: `--dir`, COCOON_HOME, else the user's state directory. */
import { homedir } from "node:os";
import { join, resolve } from "node:path";

export type Environment = Readonly<Record<string, string | undefined>>;

export interface HomeOptions {
  readonly dir?: string;
}

export function homeDirectory(options: HomeOptions, env: Environment): string {
  const fallback = join(env["XDG_STATE_HOME"] ?? join(homedir(), ".local", "state"), "cocoon");
  return resolve(options.dir ?? env["COCOON_HOME"] ?? fallback);
}
