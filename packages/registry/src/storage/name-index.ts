/**
 * Names of large directories in byte order, so that one page of them does not cost a scan of all. A directory is read when
 * its first page is requested; from then on the one process that writes to it reports changes. Bounded: the directory
 * that was used least recently is dropped first.
 */
const maxNames = 1_000_000;

interface Directory {
  readonly names: Promise<string[]>;
  /** Changes that arrive while the directory is being read; undefined afterwards. */
  pending: Map<string, boolean> | undefined;
  size: number;
}

export class NameIndex {
  readonly #directories = new Map<string, Directory>();
  readonly #read: (directory: string) => Promise<readonly string[]>;

  constructor(read: (directory: string) => Promise<readonly string[]>) {
    this.#read = read;
  }

  async page(directory: string, { after, limit }: { after: string; limit: number }): Promise<string[]> {
    const names = await this.#names(directory);
    const start = findAfter(names, after);
    return names.slice(start, start + limit);
  }

  added(directory: string, name: string): void {
    this.#change(directory, name, true);
  }

  removed(directory: string, name: string): void {
    this.#change(directory, name, false);
  }

  async #names(path: string): Promise<string[]> {
    const known = this.#directories.get(path);
    this.#directories.delete(path);
    const directory = known ?? this.#load(path);
    this.#directories.set(path, directory); // now the one used last
    return directory.names;
  }

  #load(path: string): Directory {
    const pending = new Map<string, boolean>();
    const load = async (): Promise<string[]> => {
      try {
        const names = [...(await this.#read(path))].sort();
        for (const [name, isThere] of pending) setPresence(names, name, isThere);
        directory.pending = undefined;
        directory.size = names.length;
        this.#dropLeastUsed();
        return names;
      } catch (error) {
        this.#directories.delete(path);
        throw error;
      }
    };
    const directory: Directory = { names: Promise.resolve().then(load), pending, size: 0 };
    return directory;
  }

  #change(path: string, name: string, isThere: boolean): void {
    const directory = this.#directories.get(path);
    if (!directory) return;
    if (directory.pending) directory.pending.set(name, isThere);
    else void directory.names.then((names) => (directory.size = setPresence(names, name, isThere)));
  }

  #dropLeastUsed(): void {
    let total = 0;
    for (const { size } of this.#directories.values()) total += size;
    for (const [path, { size }] of this.#directories) {
      if (total <= maxNames || this.#directories.size === 1) return;
      this.#directories.delete(path);
      total -= size;
    }
  }
}

function setPresence(names: string[], name: string, isThere: boolean): number {
  const at = findFrom(names, name);
  const found = names[at] === name;
  if (isThere && !found) names.splice(at, 0, name);
  if (!isThere && found) names.splice(at, 1);
  return names.length;
}

/** Index of the first name that is not before the given one. */
function findFrom(names: readonly string[], name: string): number {
  let [low, high] = [0, names.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((names[middle] ?? "") < name) low = middle + 1;
    else high = middle;
  }
  return low;
}

function findAfter(names: readonly string[], name: string): number {
  const at = findFrom(names, name);
  return names[at] === name ? at + 1 : at;
}
