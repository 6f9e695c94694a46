/** Tokens that follow from a sandbox's identity: the same in every replica, after every pause and restart. */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Sandbox } from "./sandbox.ts";

type Owner = Pick<Sandbox, "namespace" | "id">;
type Purpose = "envd" | "traffic" | "guest";

export class Tokens {
  readonly #seed: string;

  constructor(seed: string) {
    this.#seed = seed;
  }

  compute(purpose: Purpose, { namespace, id }: Owner): string {
    return createHmac("sha256", this.#seed).update(`${purpose}\0${namespace}\0${id}`).digest("hex");
  }

  matches(purpose: Purpose, owner: Owner, given: string): boolean {
    return equalTexts(this.compute(purpose, owner), given);
  }
}

export function equalTexts(wanted: string, given: string): boolean {
  const left = Buffer.from(wanted);
  const right = Buffer.from(given);
  return left.length === right.length && timingSafeEqual(left, right);
}
