/** A small request to another server of the installation, without fetch: that would cost this program 16 MB. */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import https from "node:https";
import { Fault, getErrorMessage, nodeHttp } from "@cocoon/core";

export interface TextRequest {
  readonly url: URL;
  readonly method?: "GET" | "POST";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly ca?: Buffer | undefined;
  readonly maxLength: number;
  readonly signal: AbortSignal;
}

export interface TextAnswer {
  readonly status: number;
  readonly text: string;
}

/** `unavailable` when the server does not answer, `tooLarge` when it answers more than expected. */
export async function requestText(request: TextRequest): Promise<TextAnswer> {
  const { url, method = "GET", headers, body, ca, maxLength, signal } = request;
  const options = { method, headers: { ...headers }, signal, agent: false as const };
  try {
    const outgoing =
      url.protocol === "https:"
        ? https.request(url, { ...options, ...(ca ? { ca } : {}) })
        : nodeHttp.request(url, options);
    outgoing.end(body);
    const [answer] = (await once(outgoing, "response")) as [IncomingMessage];
    let text = "";
    for await (const piece of answer.setEncoding("utf8") as AsyncIterable<string>) {
      text += piece;
      if (text.length > maxLength)
        throw new Fault("tooLarge", `${url.href} answered more than ${maxLength} letters`);
    }
    return { status: answer.statusCode ?? 0, text };
  } catch (error) {
    if (error instanceof Fault) throw error;
    throw new Fault("unavailable", `${url.host} does not answer: ${getErrorMessage(error)}`, {
      cause: error,
    });
  }
}
