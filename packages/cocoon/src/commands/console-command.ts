/** The serial console on this terminal: raw, until the escape character and "." are typed. */
import { Fault } from "@cocoon/core";
import type { CommandSession } from "../session.ts";

export async function attachConsole(session: CommandSession, ref: string, escape: string): Promise<void> {
  const { io } = session;
  if (!io.stdin.isTTY) throw new Fault("invalid", "stdin is not a terminal");
  const escapeByte = readEscape(escape);
  const console = await (await session.runtime()).openConsole(ref, session);
  session.say(`connected; ${escape} then . disconnects`);
  io.stdin.setRawMode?.(true);
  try {
    console.pipe(io.stdout, { end: false });
    await new Promise<void>((resolve) => {
      const typed = new EscapeReader(escapeByte, resolve);
      io.stdin.on("data", (piece: Buffer) => console.write(typed.take(piece)));
      console.once("close", resolve);
      console.once("end", resolve);
      session.signal.addEventListener("abort", () => resolve(), { once: true });
    });
  } finally {
    io.stdin.setRawMode?.(false);
    io.stdin.removeAllListeners("data");
    io.stdin.pause();
    console.destroy();
  }
}

/** `^]` is control and "]"; a single character is itself. */
function readEscape(text: string): number {
  const [first = "", second = ""] = text;
  if (text.length === 2 && first === "^") return second.toUpperCase().charCodeAt(0) & 0x1f;
  if (text.length === 1) return first.charCodeAt(0);
  throw new Fault("invalid", `invalid --escape-char "${text}": use one character, or ^ and a letter`);
}

/** Passes on what is typed, and notices the escape character followed by ".". */
class EscapeReader {
  readonly #escape: number;
  readonly #leave: () => void;
  #pending = false;

  constructor(escape: number, leave: () => void) {
    this.#escape = escape;
    this.#leave = leave;
  }

  take(piece: Buffer): Buffer {
    const passed: number[] = [];
    for (const byte of piece) {
      if (this.#pending && byte === 0x2e) this.#leave();
      else if (this.#pending) passed.push(this.#escape, byte);
      else if (byte !== this.#escape) passed.push(byte);
      this.#pending = !this.#pending && byte === this.#escape;
    }
    return Buffer.from(passed);
  }
}
