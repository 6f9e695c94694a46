/** Ids of sandboxes: one DNS label without "-", for it follows a port and a "-" in host names. */
import { randomInt } from "node:crypto";
import { ApiError } from "../http/answer.ts";

const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789";

export function makeSandboxId(): string {
  return `i${Array.from({ length: 20 }, () => alphabet[randomInt(alphabet.length)]).join("")}`;
}

/** `{id}`, or the older `{id}-{clientID}`. */
export function parseSandboxId(text: string): string {
  const [id = "", , ...rest] = text.split("-");
  if (rest.length > 0 || !/^[a-z0-9]{1,60}$/.test(id))
    throw new ApiError(400, `Invalid sandbox ID: ${text.slice(0, 80)}`);
  return id;
}
