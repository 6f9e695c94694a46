/**
 * A fake guest: files on a disk and in memory, a counter, and as much of a shell as tests need. It is data, so
 * that a snapshot of it is a copy.
 */
import { randomBytes } from "node:crypto";

export interface FakeGuestState {
  /** Files that survive a cold boot. */
  readonly disk: Readonly<Record<string, string>>;
  /** Files below /run. */
  readonly memory: Readonly<Record<string, string>>;
  /** What the counter stood at when it was last observed at; absent = it was not started. */
  readonly counted?: number;
}

export interface ShellLine {
  readonly text: string;
  readonly env: Readonly<Record<string, string>>;
  readonly size: { readonly rows: number; readonly columns: number };
}

export interface Reply {
  readonly stdout: string;
  readonly stderr: string;
  /** Set when the shell ends with that line. */
  readonly exit?: number;
}

const counterFile = "/run/counter";
const countMs = 100;

export class FakeGuest {
  readonly #disk: Map<string, string>;
  readonly #memory: Map<string, string>;
  hostname: string;
  /** When the counter would have been zero; shifted while the guest is frozen. */
  #counterSince: number | undefined;
  #frozenAt: number | undefined;

  constructor(hostname: string, state: FakeGuestState = { disk: {}, memory: {} }) {
    this.hostname = hostname;
    this.#disk = new Map(Object.entries(state.disk));
    this.#memory = new Map(Object.entries(state.memory));
    if (state.counted !== undefined) this.#counterSince = Date.now() - state.counted * countMs;
  }

  save(): FakeGuestState {
    const counted = this.#counted();
    return {
      disk: Object.fromEntries(this.#disk),
      memory: Object.fromEntries(this.#memory),
      ...(counted === undefined ? {} : { counted }),
    };
  }

  freeze(): void {
    this.#frozenAt ??= Date.now();
  }

  thaw(): void {
    if (this.#frozenAt !== undefined && this.#counterSince !== undefined)
      this.#counterSince += Date.now() - this.#frozenAt;
    this.#frozenAt = undefined;
  }

  /** Memory is lost, the disk stays. */
  reboot(): void {
    this.#memory.clear();
    this.#counterSince = undefined;
    this.#frozenAt = undefined;
  }

  read(path: string): string | undefined {
    if (path === counterFile) {
      const counted = this.#counted();
      return counted === undefined ? undefined : `${counted}\n`;
    }
    return this.#listFiles(path).get(path);
  }

  write(path: string, text: string): void {
    this.#listFiles(path).set(path, text);
  }

  startCounter(): void {
    this.#counterSince = Date.now() - countMs;
  }

  /** One line for the shell; commands are separated by ";". */
  shell(line: ShellLine): Reply {
    if (line.text.includes(counterFile)) {
      this.startCounter();
      return { stdout: "", stderr: "" };
    }
    let [stdout, stderr] = ["", ""];
    for (const command of line.text.split(";").map((each) => each.trim())) {
      const [name = "", ...words] = command.split(/\s+/);
      if (name === "exit") return { stdout, stderr, exit: Number(words[0] ?? 0) };
      const said = this.#say(name, words, line);
      if (command.endsWith(">&2")) stderr += said;
      else stdout += said;
    }
    return { stdout, stderr };
  }

  // oxlint-disable-next-line max-params -- a command, its words and where it was typed
  #say(name: string, words: readonly string[], { env, size }: ShellLine): string {
    if (name === "stty") return `${size.rows} ${size.columns}\n`;
    if (name === "head") return `${randomBytes(32).toString("hex")}\n`;
    if (name === "hostname") return `${this.hostname}\n`;
    if (name !== "echo") return "";
    const text = words.filter((word) => word !== ">&2").join(" ");
    return `${text
      .replaceAll(/\$\(\((\d+) \* (\d+)\)\)/g, (_all, one: string, other: string) =>
        String(Number(one) * Number(other)),
      )
      .replaceAll(/\$(\w+)/g, (_all, key: string) => env[key] ?? "")}\n`;
  }

  #counted(): number | undefined {
    if (this.#counterSince === undefined) return undefined;
    return Math.max(1, Math.floor(((this.#frozenAt ?? Date.now()) - this.#counterSince) / countMs));
  }

  #listFiles(path: string): Map<string, string> {
    return path.startsWith("/run/") ? this.#memory : this.#disk;
  }
}
