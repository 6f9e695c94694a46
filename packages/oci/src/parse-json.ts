/** JSON from outside; what cannot be read is a Fault that says what it was. */
import { Fault } from "@cocoon/core";

export function parseJson(bytes: Uint8Array, what: string): unknown {
  try {
    return JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("utf8"));
  } catch (error) {
    throw new Fault("invalid", `the ${what} is not JSON`, { cause: error });
  }
}
