/**
 * Session cookies, compatible with those of the Go servers, and the state nonce of a login, by WebCrypto.
 *
 *   cookie  = P "." S
 *   P       = base64url(JSON {"u":user,"e":email,"x":unix expiry}), unpadded
 *   S       = base64url(HMAC-SHA256(key, P)), unpadded
 */
import { Fault } from "@cocoon/core/fault";

export interface Session {
  readonly user: string;
  readonly email: string;
  readonly expiresAt: number;
}

export interface VerifyOptions {
  readonly now: number;
  /** Servers that never issue endless sessions should not take one either. */
  readonly refuseEndless?: boolean;
}

/** What browsers keep. */
const maxCookieLength = 4096;
const signatureLength = 43;

export async function signSession(session: Session, key: Uint8Array): Promise<string> {
  const json = JSON.stringify({ u: session.user, e: session.email, x: session.expiresAt });
  const payload = toBase64Url(new TextEncoder().encode(json));
  const signature = await crypto.subtle.sign("HMAC", await hmacKey(key), new TextEncoder().encode(payload));
  return `${payload}.${toBase64Url(new Uint8Array(signature))}`;
}

/** The session of a cookie that this key signed and that has not expired; undefined for anything else. */
export async function verifySession(
  cookie: string,
  key: Uint8Array,
  { now, refuseEndless = false }: VerifyOptions,
): Promise<Session | undefined> {
  const dot = cookie.indexOf(".");
  if (dot < 0 || cookie.length > maxCookieLength) return undefined;
  const payload = cookie.slice(0, dot);
  const signature = tryFromBase64Url(cookie.slice(dot + 1), signatureLength);
  const signed = new TextEncoder().encode(payload);
  // WebCrypto compares in constant time.
  if (signature === undefined || !(await crypto.subtle.verify("HMAC", await hmacKey(key), signature, signed)))
    return undefined;
  const session = tryReadPayload(payload);
  if (session === undefined) return undefined;
  const endless = session.expiresAt === 0;
  return endless ? (refuseEndless ? undefined : session) : session.expiresAt > now ? session : undefined;
}

function tryReadPayload(payload: string): Session | undefined {
  const bytes = tryFromBase64Url(payload);
  if (bytes === undefined) return undefined;
  try {
    const value: unknown = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
    return tryReadSession(value);
  } catch {
    return undefined; // signed by the right key, but not by this format
  }
}

function tryReadSession(value: unknown): Session | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { u, e, x } = value as { u?: unknown; e?: unknown; x?: unknown };
  if (typeof u !== "string" || typeof e !== "string" || typeof x !== "number") return undefined;
  return Number.isSafeInteger(x) ? { user: u, email: e, expiresAt: x } : undefined;
}

async function hmacKey(key: Uint8Array): Promise<CryptoKey> {
  if (key.length === 0) throw new Fault("invalid", "the key of session cookies is empty");
  const bytes = Uint8Array.from(key);
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign", "verify"]);
}

/** 16 random bytes as 32 hexadecimal digits. A random source that fails throws: no login is better than a known one. */
export function newStateNonce(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Compares two secrets without telling by the time it takes where they differ. */
export function isSameSecret(left: string, right: string): boolean {
  const [one, other] = [new TextEncoder().encode(left), new TextEncoder().encode(right)];
  let difference = one.length ^ other.length;
  for (const [index, byte] of one.entries()) difference |= byte ^ (other[index % (other.length || 1)] ?? 0);
  return difference === 0;
}

function toBase64Url(bytes: Uint8Array): string {
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Only the one canonical text of some bytes is taken. */
function tryFromBase64Url(text: string, length?: number): Uint8Array<ArrayBuffer> | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(text) || (length !== undefined && text.length !== length)) return undefined;
  if (text.length % 4 === 1) return undefined;
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  return toBase64Url(bytes) === text ? bytes : undefined;
}
