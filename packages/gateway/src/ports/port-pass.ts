/**
 * Signed texts that let one user reach one port of one machine for a while: the code in a link, and the cookie that it is exchanged
 * for. They say who the user is, never what the user may do: that the API server is asked.
 */
import { createHmac, randomUUID } from "node:crypto";
import { tryParseJson } from "@cocoon/core";
import type { KubeUser } from "@cocoon/kube";
import * as z from "zod";
import { equalTexts } from "../sandboxes/tokens.ts";
import type { MachineTarget } from "./target.ts";

type Purpose = "link" | "cookie";

const passSchema = z.object({
  purpose: z.enum(["link", "cookie"]),
  id: z.string(),
  target: z.string(),
  endsAt: z.number(),
  user: z.object({
    username: z.string().min(1),
    uid: z.string().exactOptional(),
    groups: z.array(z.string()).exactOptional(),
    extra: z.record(z.string(), z.array(z.string())).exactOptional(),
  }),
});

export type PortPass = z.output<typeof passSchema>;

export interface PassRequest {
  readonly purpose: Purpose;
  readonly user: KubeUser;
  readonly target: MachineTarget;
  readonly lifeMs: number;
}

export class PortPasses {
  readonly #seed: string;
  readonly #now: () => number;

  constructor(seed: string, now: () => number = Date.now) {
    this.#seed = seed;
    this.#now = now;
  }

  issue({ purpose, user, target, lifeMs }: PassRequest): string {
    const pass: PortPass = {
      purpose,
      id: randomUUID(),
      target: describe(target),
      endsAt: this.#now() + lifeMs,
      user: passSchema.shape.user.parse(user),
    };
    const body = Buffer.from(JSON.stringify(pass)).toString("base64url");
    return `${body}.${this.#sign(body)}`;
  }

  /** Undefined unless it was issued for this purpose and this port, and has not ended. */
  tryRead(text: string, purpose: Purpose, target: MachineTarget): PortPass | undefined {
    const [body = "", signature = ""] = text.split(".", 2);
    if (!equalTexts(this.#sign(body), signature)) return undefined;
    const parsed = passSchema.safeParse(tryParseJson(Buffer.from(body, "base64url").toString("utf8")));
    if (!parsed.success) return undefined;
    const pass = parsed.data;
    const isMeant = pass.purpose === purpose && pass.target === describe(target);
    return isMeant && pass.endsAt > this.#now() ? pass : undefined;
  }

  #sign(body: string): string {
    return createHmac("sha256", this.#seed).update(`port-pass\0${body}`).digest("base64url");
  }
}

function describe({ namespace, machine, port }: MachineTarget): string {
  return `${namespace}/${machine}:${port}`;
}
