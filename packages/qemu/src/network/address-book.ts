/**
 * Who has which address. One file per address, named after it, complete when it is there and made exclusively: an
 * address cannot be handed out twice, neither by two processes nor after a crash between two steps.
 *
 *   DIRECTORY/book.lock
 *   DIRECTORY/127.88.0.5.json    { "vmId": …, … }
 *
 * The search for a free address goes on behind the newest one, so that an address rests before it is used again: others
 * may still take it for the machine that had it.
 */
import { randomBytes } from "node:crypto";
import { link, mkdir, readdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  Fault,
  lockFile,
  syncDirectory,
  systemCode,
  tryReadFile,
  writeFileAtomically,
  type Abortable,
} from "@cocoon/core";
import type * as z from "zod";
import { formatIpv4, parseIpv4, type Ipv4Range } from "./ipv4.ts";

export interface Entry<T> {
  readonly ip: string;
  readonly value: T;
}

export interface AddressBookOptions<T> {
  readonly directory: string;
  readonly range: Ipv4Range;
  readonly schema: z.ZodType<T>;
  /** Where the search begins in an empty book. */
  readonly startAt?: number;
}

export class AddressBook<T extends { readonly vmId: string }> {
  readonly #options: AddressBookOptions<T>;
  #lastTurn: Promise<unknown> = Promise.resolve();
  readonly #known = new Map<string, { readonly stamp: string; readonly value: T }>();

  constructor(options: AddressBookOptions<T>) {
    this.#options = options;
  }

  /** Changes of one entry, and everything that reads before it writes, happen under this lock. */
  async locked<R>(options: Abortable, work: () => Promise<R>): Promise<R> {
    // Callers of this process queue up in memory: waiting for the file means looking again and again.
    const turn = this.#lastTurn.then(() => this.#alone(options, work));
    this.#lastTurn = turn.catch(() => undefined);
    return turn;
  }

  async #alone<R>(options: Abortable, work: () => Promise<R>): Promise<R> {
    options.signal.throwIfAborted();
    await mkdir(this.#options.directory, { recursive: true, mode: 0o700 });
    await using _lock = await lockFile(join(this.#options.directory, "book.lock"), options);
    return await work();
  }

  async list(): Promise<Entry<T>[]> {
    const ips = await this.#ips();
    const entries = await Promise.all(ips.map((ip) => this.#tryRead(ip)));
    for (const ip of this.#known.keys()) if (!ips.includes(ip)) this.#known.delete(ip);
    return entries.filter((entry) => entry !== undefined);
  }

  async tryFind(vmId: string): Promise<Entry<T> | undefined> {
    return (await this.list()).find(({ value }) => value.vmId === vmId);
  }

  /**
   * Takes a free address that `suits`; the entry may depend on it. Under the lock. `suits` is called in order, at most
   * a bounded number of times.
   */
  async take(make: (ip: string) => T, suits: (ip: string) => Promise<boolean>): Promise<Entry<T>> {
    const { range } = this.#options;
    const used = new Set((await this.#ips()).map(parseIpv4));
    const size = range.last - range.first + 1;
    const begin = await this.#begin(size);
    let asked = 0;
    for (let step = 0; step < size && asked < maxRefusals; step += 1) {
      const address = range.first + ((begin + step) % size);
      if (used.has(address)) continue;
      const ip = formatIpv4(address);
      asked += 1;
      if (!(await suits(ip))) continue;
      const value = make(ip);
      if (await this.#claim(ip, value)) return { ip, value };
    }
    const why = asked >= maxRefusals ? "are used by others" : "are taken";
    throw new Fault("unavailable", `no free address: all ${size} of ${formatIpv4(range.first)}… ${why}`);
  }

  /** Under the lock. */
  async update({ ip, value }: Entry<T>): Promise<void> {
    await writeFileAtomically(this.#path(ip), JSON.stringify(value), { mode: 0o600 });
  }

  async release(ip: string): Promise<void> {
    await rm(this.#path(ip), { force: true });
    await syncDirectory(this.#options.directory);
  }

  async #begin(size: number): Promise<number> {
    const ips = await this.#ips();
    let newest = { at: -1, ip: "" };
    for (const ip of ips) {
      const { ctimeMs } = await stat(this.#path(ip)).catch(() => ({ ctimeMs: -1 }));
      if (ctimeMs > newest.at) newest = { at: ctimeMs, ip };
    }
    const { range, startAt = 0 } = this.#options;
    return newest.ip === "" ? startAt % size : (parseIpv4(newest.ip) - range.first + 1) % size;
  }

  /** A link makes the whole file visible at once, or fails because the name is taken. */
  async #claim(ip: string, value: T): Promise<boolean> {
    const draft = join(this.#options.directory, `.${randomBytes(6).toString("hex")}.draft`);
    try {
      await writeFile(draft, JSON.stringify(value), { mode: 0o600, flag: "wx", flush: true });
      await link(draft, this.#path(ip));
    } catch (error) {
      if (systemCode(error) === "EEXIST") return false;
      throw error;
    } finally {
      await rm(draft, { force: true });
    }
    await syncDirectory(this.#options.directory);
    return true;
  }

  async #ips(): Promise<string[]> {
    const files = await readdir(this.#options.directory).catch((error: unknown) => {
      if (systemCode(error) === "ENOENT") return [];
      throw error;
    });
    return files
      .filter((file) => /^\d+\.\d+\.\d+\.\d+\.json$/.test(file))
      .map((file) => file.slice(0, -".json".length));
  }

  async #tryRead(ip: string): Promise<Entry<T> | undefined> {
    const path = this.#path(ip);
    const status = await stat(path).catch(() => undefined);
    if (!status) return undefined;
    const stamp = `${status.ino}-${status.mtimeMs}-${status.size}`;
    const known = this.#known.get(ip);
    if (known?.stamp === stamp) return { ip, value: known.value };
    const text = await tryReadFile(path);
    if (text === undefined) return undefined;
    const value = this.#parse(path, text);
    this.#known.set(ip, { stamp, value });
    return { ip, value };
  }

  #parse(path: string, text: string): T {
    try {
      return this.#options.schema.parse(JSON.parse(text));
    } catch (error) {
      throw new Fault(
        "internal",
        `the address record ${path} is damaged: remove it if no VM uses the address`,
        {
          cause: error,
        },
      );
    }
  }

  #path(ip: string): string {
    return join(this.#options.directory, `${ip}.json`);
  }
}

/** Addresses that are free for us but not for the host, before we give up. */
const maxRefusals = 512;
