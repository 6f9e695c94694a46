/** Links that sign a user in once. A code stands for a token that was shown to be valid; it is kept in memory for minutes. */
import { randomBytes } from "node:crypto";
import { Fault } from "@cocoon/core";

interface Waiting {
  readonly token: string;
  readonly user: string;
  readonly endsAt: number;
}

const codeBytes = 24;
const lifetimeMs = 5 * 60_000;
const maxWaiting = 100;

export class OneTimeLinks {
  readonly #waiting = new Map<string, Waiting>();
  readonly #now: () => number;

  constructor(now: () => number = Date.now) {
    this.#now = now;
  }

  create(login: Pick<Waiting, "token" | "user">): string {
    this.#removeEnded();
    if (this.#waiting.size >= maxWaiting)
      throw new Fault("tooManyRequests", `${maxWaiting} links wait to be opened; wait until some have ended`);
    const code = randomBytes(codeBytes).toString("base64url");
    this.#waiting.set(code, { ...login, endsAt: this.#now() + lifetimeMs });
    return code;
  }

  /** The login of a code, which is spent by it; undefined when the code is unknown, spent or too old. */
  redeem(code: string): Pick<Waiting, "token" | "user"> | undefined {
    this.#removeEnded();
    const found = this.#waiting.get(code);
    this.#waiting.delete(code);
    return found && { token: found.token, user: found.user };
  }

  #removeEnded(): void {
    for (const [code, { endsAt }] of this.#waiting) if (endsAt <= this.#now()) this.#waiting.delete(code);
  }
}
