/**
 * Changes the loader that a dynamically linked program names, so that it can be carried into a root file system which
 * has another C library, or none. The new path must fit where the old one stands.
 */
import { Fault } from "@cocoon/core";

const programHeaderInterpreter = 3;

export function withInterpreter(program: Buffer, interpreter: string): Buffer {
  const place = findInterpreter(program);
  const path = Buffer.from(`${interpreter}\0`, "latin1");
  if (path.length > place.length) {
    throw new Fault(
      "invalid",
      `the path ${interpreter} is too long: only ${place.length - 1} bytes are free`,
    );
  }
  const changed = Buffer.from(program);
  changed.fill(0, place.offset, place.offset + place.length);
  path.copy(changed, place.offset);
  return changed;
}

function findInterpreter(program: Buffer): { readonly offset: number; readonly length: number } {
  const is64BitLittleEndian = program.subarray(0, 6).equals(Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1]));
  if (!is64BitLittleEndian) throw new Fault("invalid", "not a 64-bit little-endian ELF program");
  const table = Number(program.readBigUInt64LE(32));
  const entrySize = program.readUInt16LE(54);
  const entryCount = program.readUInt16LE(56);
  for (let index = 0; index < entryCount; index += 1) {
    const header = table + index * entrySize;
    if (program.readUInt32LE(header) !== programHeaderInterpreter) continue;
    return {
      offset: Number(program.readBigUInt64LE(header + 8)),
      length: Number(program.readBigUInt64LE(header + 32)),
    };
  }
  throw new Fault("invalid", "the program is static: it asks for no loader");
}
