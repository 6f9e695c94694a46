/** Links to ports of machines, made by the gateway for the user who signed in. The dashboard itself serves no page of a guest. */
import { Fault, tryParseJson, withDeadline, type FaultCode } from "@cocoon/core";
import * as z from "zod";
import type { SignedIn } from "../auth/session-cookies.ts";
import { requestText } from "../http/request-text.ts";

const name = z.string().regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, "must be a name of Kubernetes");

export const portLinkSchema = z.object({
  namespace: name,
  machine: name,
  port: z.number().int().min(1).max(65_535),
});

export type PortLinkRequest = z.output<typeof portLinkSchema>;

const answerSchema = z.object({ path: z.string().startsWith("/.cocoon/open?") });
const refusalSchema = z.object({ message: z.string() });
const answerMs = 20_000;
const maxAnswerLength = 64 * 1024;

export class PortLinks {
  readonly #template: string;

  /** Address of a port, with `{port}`, `{machine}` and `{namespace}`. */
  constructor(template: string) {
    this.#template = template;
  }

  async create(wanted: PortLinkRequest, { token }: SignedIn, signal: AbortSignal): Promise<string> {
    const { port, machine, namespace } = wanted;
    const address = this.#template
      .replace("{port}", String(port))
      .replace("{machine}", machine)
      .replace("{namespace}", namespace);
    const origin = new URL(address);
    const { status, text } = await requestText({
      url: new URL("/.cocoon/links", resolveLocally(origin)),
      method: "POST",
      headers: { host: origin.host, "cocoon-token": token, "content-length": "0" },
      maxLength: maxAnswerLength,
      signal: withDeadline(signal, answerMs),
    });
    const body = tryParseJson(text);
    const answer = status === 200 ? answerSchema.safeParse(body) : undefined;
    if (answer?.success) return new URL(answer.data.path, origin).href;
    throw new Fault(codes[status] ?? "unavailable", describeRefusal(status, body));
  }
}

const codes: Readonly<Record<number, FaultCode>> = { 401: "forbidden", 403: "forbidden" };

function describeRefusal(status: number, body: unknown): string {
  const refusal = refusalSchema.safeParse(body);
  return refusal.success
    ? `the gateway says: ${refusal.data.message}`
    : `the gateway answered ${status} and nothing readable; is DASHBOARD_GATEWAY its address?`;
}

/** A browser takes names below localhost for this machine; the resolver of a system may not know them. */
function resolveLocally(origin: URL): URL {
  const url = new URL(origin);
  if (url.hostname.endsWith(".localhost")) url.hostname = "127.0.0.1";
  return url;
}
