/**
 * A password as guests store it: SHA-512 crypt (`$6$`), as crypt(3) and every Linux login read it. The guest never gets the password
 * itself. Only this one scheme, with its default of 5000 rounds; https://www.akkadia.org/drepper/SHA-crypt.txt has the algorithm.
 */
import { createHash, randomBytes } from "node:crypto";

const alphabet = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const rounds = 5_000;
const sha512 = (...parts: readonly Buffer[]) => createHash("sha512").update(Buffer.concat(parts)).digest();

/** The bytes of `block`, repeated to that length. */
function repeat(block: Buffer, length: number): Buffer {
  return Buffer.alloc(length, block);
}

export function hashPassword(password: string, salt = randomSalt()): string {
  const key = Buffer.from(password, "utf8");
  const salted = Buffer.from(salt, "latin1");
  const alternate = sha512(key, salted, key);
  const bits: Buffer[] = [];
  for (let count = key.length; count > 0; count >>= 1) bits.push(count & 1 ? alternate : key);
  let digest = sha512(key, salted, repeat(alternate, key.length), ...bits);
  const p = repeat(sha512(repeat(key, key.length ** 2)), key.length);
  const s = repeat(sha512(repeat(salted, salted.length * (16 + (digest[0] ?? 0)))), salted.length);
  for (let round = 0; round < rounds; round += 1)
    digest = sha512(
      round % 2 ? p : digest,
      round % 3 ? s : Buffer.alloc(0),
      round % 7 ? p : Buffer.alloc(0),
      round % 2 ? digest : p,
    );
  return `$6$${salt}$${encode(digest)}`;
}

function randomSalt(): string {
  return [...randomBytes(16)].map((byte) => alphabet[byte % 64]).join("");
}

/** Three bytes to four characters, in the order of the scheme: each group takes one byte of every third. */
function encode(digest: Buffer): string {
  const at = (index: number) => digest[index] ?? 0;
  const groups = Array.from({ length: 21 }, (_, index) => {
    const [a, b, c] = [index, index + 21, index + 42];
    const order = [
      [a, b, c],
      [b, c, a],
      [c, a, b],
    ][index % 3] ?? [a, b, c];
    const [high = 0, middle = 0, low = 0] = order.map(at);
    return characters((high << 16) | (middle << 8) | low, 4);
  });
  return groups.join("") + characters(at(63), 2);
}

function characters(value: number, count: number): string {
  return Array.from({ length: count }, (_, index) => alphabet[(value >> (6 * index)) & 63]).join("");
}
