/**
 * A guest of 211 bytes, to find out whether an accelerator really runs guests. `/dev/kvm` may open, run real-mode code
 * and even a BIOS, and still hang every 64-bit kernel; so this firmware goes all the way from reset through protected
 * mode, paging and long mode, uses a vector register and the stack, and leaves by a debug port.
 *
 *   0xfff0        jmp far f000:ff00                                    (the reset vector)
 *   0xff00 .16    cli; ds = 0; lgdt; cr0.PE; jmp 8:protected
 *   .32           segments; esp = 0x8000; tables at 0x1000, 0x2000, 0x3000 map the first 2 MiB onto themselves;
 *                 cr4 = PAE|OSFXSR|OSXMMEXCPT; cr3 = 0x1000; EFER.LME; cr0 |= PG|MP, cr0 &= ~EM; jmp 24:long
 *   .64           rax = 42 << 56; through xmm0, rbx and the stack; al = rax >> 56; out 0x501, al; hlt
 *   gdt           null, 32-bit code, data, 64-bit code
 */
import { spawn } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Abortable } from "@cocoon/core";

const code = Buffer.from(
  [
    "fa31c08ed82e660f0116adff0f20c00c010f22c066ea1cff0f00080066b810008ed88ec08ed0bc00800000fcbf001000",
    "0031c0b9000c0000f3abc7050010000003200000c7050020000003300000c7050030000083000000b8200600000f22e0",
    "b8001000000f22d8b9800000c00f320d000100000f300f20c00d0200008083e0fb0f22c0ea8bff0f00180048b8000000",
    "000000002a66480f6ec066480f7ec3535848c1e83866ba0105eef4ebfd1f00b3ff0f000000000000000000ffff000000",
    "9acf00ffff00000092cf00ffff0000009aaf00",
  ].join(""),
  "hex",
);
const firmwareBytes = 64 * 1024;
const codeOffset = 0xff00;
const resetOffset = 0xfff0;
const resetJump = Buffer.from([0xea, 0x00, 0xff, 0x00, 0xf0]);
/** The debug device turns 42 into 2 * 42 + 1. */
const successCode = 85;

export interface ProbeGuestOptions extends Abortable {
  readonly binary: string;
  readonly accelerator: "kvm" | "tcg";
  readonly deadlineMs: number;
}

/** Empty when the guest ran, else why it did not. */
export async function runProbeGuest(options: ProbeGuestOptions): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), "cocoon-probe-"));
  try {
    const firmware = join(directory, "firmware");
    await writeFile(firmware, probeFirmware());
    const args = `-M pc -accel ${options.accelerator} -m 16 -nodefaults -no-user-config -display none`.split(
      " ",
    );
    args.push("-bios", firmware, "-device", "isa-debug-exit,iobase=0x501,iosize=4");
    const outcome = await runBriefly(options.binary, args, options);
    if (outcome.code === successCode) return "";
    return outcome.late
      ? `a guest did not run within ${options.deadlineMs} ms`
      : `a guest did not run: ${outcome.text.trim() || `QEMU ended with ${outcome.code}`}`;
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function probeFirmware(): Buffer {
  const image = Buffer.alloc(firmwareBytes, 0xf4);
  code.copy(image, codeOffset);
  resetJump.copy(image, resetOffset);
  return image;
}

export interface ChildOutcome {
  readonly code: number | null;
  readonly late: boolean;
  readonly text: string;
}

const maxOutput = 256 * 1024;

/** Runs a program that ends by itself; kills it at the deadline. Its output, both streams, is bounded. */
export function runBriefly(
  binary: string,
  args: readonly string[],
  options: Abortable & { readonly deadlineMs: number },
): Promise<ChildOutcome> {
  return new Promise((resolve, reject) => {
    const child = spawn(binary, args, { stdio: ["ignore", "pipe", "pipe"], env: {}, signal: options.signal });
    let [text, late] = ["", false];
    const collect = (piece: Buffer) => (text = `${text}${piece.toString("utf8")}`.slice(0, maxOutput));
    child.stdout.on("data", collect);
    child.stderr.on("data", collect);
    const timer = setTimeout(() => {
      late = true;
      child.kill("SIGKILL");
    }, options.deadlineMs);
    child.once("error", (error) => {
      clearTimeout(timer);
      reject(error);
    });
    child.once("close", (exitCode) => {
      clearTimeout(timer);
      resolve({ code: exitCode, late, text });
    });
  });
}
