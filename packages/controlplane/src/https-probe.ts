/** One GET over TLS with the cluster's certificates; throws unless the answer is 200. */
import { readFile } from "node:fs/promises";
import https from "node:https";
import { Fault, type Abortable } from "@cocoon/core";
import type { PairFiles } from "./pki/cluster-pki.ts";

export interface HttpsProbe {
  readonly url: string;
  readonly authority: string;
  readonly client?: PairFiles;
}

export async function probeHttps(
  { url, authority, client }: HttpsProbe,
  { signal }: Abortable,
): Promise<void> {
  const [ca, cert, key] = await Promise.all(
    [authority, client?.certificate, client?.key].map((file) =>
      file ? readFile(file) : Promise.resolve(undefined),
    ),
  );
  await new Promise<void>((resolve, reject) => {
    const request = https.get(url, { ca, cert, key, signal, agent: false }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (chunk: string) => (text += chunk));
      response.on("error", reject);
      response.on("end", () => {
        if (response.statusCode === 200) resolve();
        else
          reject(
            new Fault("unavailable", `${url} answered ${response.statusCode}: ${text.slice(-200).trim()}`),
          );
      });
    });
    request.on("error", reject);
  });
}
