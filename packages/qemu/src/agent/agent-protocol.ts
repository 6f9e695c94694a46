/**
 * The words between the host and the agent in a guest. They travel over virtio-serial ports, so that they need no
 * network and work at once after a restore.
 *
 * Ports. A guest has `agentPortCount` ports named `org.cocoon.agent.0`, `.1`, …; the agent opens all that exist, each
 * once (a second open is EBUSY), waits for ports that appear later, and serves each on its own: a session, numbers and
 * programs belong to one port. Host programs that want to talk at the same time take different ports.
 *
 * Lines. Each message is one line of JSON, an object whose values are strings, integers, booleans or lists of strings,
 * nothing deeper; UTF-8, ended by "\n", at most `maxLineBytes` long with its end. Unknown keys are ignored. A line that
 * is empty, too long, or not such an object is dropped: a snapshot may cut a line in two, and what was sent while the
 * other side had the port closed is lost. The host begins each connection with an empty line.
 *
 * Sessions. Every message carries `s`, the session: random text chosen by the host for each connection. A `ping` with a
 * new `s` starts a session: the agent kills (SIGHUP, then SIGKILL after 1 s) the programs of the port's former session
 * and forgets its numbers. Any other message with a strange `s` is dropped, on both sides.
 *
 * Numbers. Requests carry `id`, 1, 2, 3, … in a session; the answer carries it as `re`. The host repeats a request
 * (same `id`, same content) until it is answered; the agent does each number once and answers a repeated one as
 * before (it remembers the last 64 answers). Requests are begun in order. `boot` in a pong is random text that the agent
 * makes when it starts: a host that sees another one than before knows that its programs are gone.
 *
 *   host → guest                                            guest → host
 *   ping     id                                             pong    re agent features boot epoch uptimeMs
 *   identity id epoch hostname machineId instanceId         done    re
 *            wallClockMs entropy nics                       error   re code message
 *   clock    id wallClockMs                                 done
 *   entropy  id data                                        done
 *   stats    id                                             stats   re memoryTotalBytes memoryAvailableBytes
 *                                                                   receivedBytes sentBytes
 *   shutdown id mode (poweroff | reboot)                    done, and then the guest goes down
 *   exec     id argv env cwd user tty rows columns stdin    started re pid
 *   stdin    x data                                         out     x stream (stdout | stderr) data
 *   eof      x                                              end     x stream
 *   resize   x rows columns                                 exit    x code signal
 *   signal   x name (TERM INT HUP KILL QUIT)
 *   credit   x stream (stdout | stderr) bytes               credit  x bytes (of stdin)
 *
 * Programs. `x` is the number of the `exec` that started it. Bytes are base64 in `data`, at most `maxDataBytes` before
 * encoding. Each direction of each stream starts with a credit of `initialCreditBytes`; a sender stops at zero, a
 * receiver grants what it has passed on. So a slow reader stops its own program and no other. `exit` is the last
 * message about a program: it has ended, and what it wrote was sent; a child that keeps the stream open is not waited
 * for longer than 250 ms. With a tty there is no stderr; the agent makes the program a session leader with the tty as its
 * controlling terminal. Without `stdin` the program reads end of file. `cwd` "" is the user's home, `user` "" is root;
 * `env` is added to PATH, HOME, USER, SHELL, LANG and TERM. `argv[0]` is observed up in PATH. A program that cannot be started
 * is `error` with code `notFound` (no such program, user or directory) or `denied`; other codes: `invalid`, `busy` (too
 * many programs), `failed`.
 *
 * Identity. After a clone or restore the guest has another identity. On `identity` the agent, in this order: mixes `entropy`
 * (64 bytes) into the kernel's pool, credited, and forces a reseed; sets the wall clock (and the RTC is left alone);
 * sets hostname (kernel and /etc/hostname) and, where the file exists, /etc/machine-id; gives the interfaces their MACs
 * and addresses and announces them (gratuitous ARP), asking DHCP again where there is no fixed address; renews the
 * cloud-init instance id where there is one; remembers `epoch`; answers. An `identity` whose `epoch` is the one it
 * has already applied is answered without doing anything. An empty string leaves that fact alone. Each of `nics` describes
 * an interface in PCI order: "MAC ADDRESS/PREFIX|dhcp GATEWAY|- DNS,DNS|-", "-" as MAC = keep.
 */
import { tryParseJson } from "@cocoon/core";
import * as z from "zod";

export const agentPortPrefix = "org.cocoon.agent.";
export const agentPortCount = 4;

export const maxLineBytes = 48 * 1024;
export const maxDataBytes = 24 * 1024;
export const initialCreditBytes = 256 * 1024;
export const entropyBytes = 64;

export type OutputStream = "stdout" | "stderr";
type AgentSignal = "TERM" | "INT" | "HUP" | "KILL" | "QUIT";

/** Messages of the host. Requests have an `id`. */
export type HostMessage = HostRequest | HostNotice;

export type HostRequest =
  | { readonly t: "ping"; readonly id: number }
  | {
      readonly t: "identity";
      readonly id: number;
      readonly epoch: string;
      readonly hostname: string;
      /** 32 hex digits. */
      readonly machineId: string;
      readonly instanceId: string;
      readonly wallClockMs: number;
      readonly entropy: string;
      readonly nics: readonly string[];
    }
  | { readonly t: "clock"; readonly id: number; readonly wallClockMs: number }
  | { readonly t: "entropy"; readonly id: number; readonly data: string }
  | { readonly t: "stats"; readonly id: number }
  | { readonly t: "shutdown"; readonly id: number; readonly mode: "poweroff" | "reboot" }
  | {
      readonly t: "exec";
      readonly id: number;
      readonly argv: readonly string[];
      /** KEY=value. */
      readonly env: readonly string[];
      readonly cwd: string;
      readonly user: string;
      readonly tty: boolean;
      readonly rows: number;
      readonly columns: number;
      readonly stdin: boolean;
    };

export type HostNotice =
  | { readonly t: "stdin"; readonly x: number; readonly data: string }
  | { readonly t: "eof"; readonly x: number }
  | { readonly t: "resize"; readonly x: number; readonly rows: number; readonly columns: number }
  | { readonly t: "signal"; readonly x: number; readonly name: AgentSignal }
  | { readonly t: "credit"; readonly x: number; readonly stream: OutputStream; readonly bytes: number };

const number = z.int().min(0);
const text = z.string();
const stream = z.enum(["stdout", "stderr"]);

const guestMessage = z.discriminatedUnion("t", [
  z.object({
    s: text,
    t: z.literal("pong"),
    re: number,
    agent: text,
    features: z.array(text).default([]),
    boot: text.default(""),
    epoch: text.default(""),
    uptimeMs: number.default(0),
  }),
  z.object({ s: text, t: z.literal("done"), re: number }),
  z.object({
    s: text,
    t: z.literal("error"),
    re: number,
    code: z.enum(["notFound", "denied", "invalid", "busy", "failed"]).catch("failed"),
    message: text.default(""),
  }),
  z.object({
    s: text,
    t: z.literal("stats"),
    re: number,
    memoryTotalBytes: number,
    memoryAvailableBytes: number,
    receivedBytes: number,
    sentBytes: number,
  }),
  z.object({ s: text, t: z.literal("started"), re: number, pid: number }),
  z.object({ s: text, t: z.literal("out"), x: number, stream, data: text }),
  z.object({ s: text, t: z.literal("end"), x: number, stream }),
  z.object({ s: text, t: z.literal("exit"), x: number, code: number, signal: number.default(0) }),
  z.object({ s: text, t: z.literal("credit"), x: number, bytes: number }),
]);

/** Messages of the guest. */
export type GuestMessage = Readonly<z.output<typeof guestMessage>>;
export type GuestAnswer = Extract<GuestMessage, { readonly re: number }>;
export type GuestNotice = Exclude<GuestMessage, GuestAnswer>;

export function encodeHostMessage(session: string, message: HostMessage): string {
  return `${JSON.stringify({ s: session, ...message })}\n`;
}

/** The message on that line, or undefined when it is none: half a line, a strange session, an unknown word. */
export function tryReadGuestMessage(session: string, line: string): GuestMessage | undefined {
  // A line may be cut in two by a snapshot, or be written by a hostile guest.
  const parsed = guestMessage.safeParse(tryParseJson(line));
  return parsed.success && parsed.data.s === session ? parsed.data : undefined;
}
