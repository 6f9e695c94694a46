/** Talks to the etcd of a test cluster, over its JSON gateway, as the API server does over gRPC. */
import { readFile } from "node:fs/promises";
import { request } from "node:https";
import { join } from "node:path";
import type { OwnControlPlane } from "@cocoon/testkit";

/** Forgets the history of all keys before now, as etcd does on its own every five minutes. */
export async function compact(cluster: OwnControlPlane): Promise<void> {
  const key = Buffer.from("/").toString("base64");
  const { header } = (await post(cluster, "/v3/kv/range", { key, limit: 1 })) as {
    header: { revision: string };
  };
  await post(cluster, "/v3/kv/compaction", { revision: header.revision, physical: true });
}

async function post(cluster: OwnControlPlane, path: string, body: unknown): Promise<unknown> {
  const file = (name: string) => readFile(join(cluster.layout.pki, name));
  const [ca, cert, key] = await Promise.all([
    file("ca.crt"),
    file("apiserver-kubelet-client.crt"),
    file("apiserver-kubelet-client.key"),
  ]);
  return new Promise((resolve, reject) => {
    const call = request(new URL(path, cluster.etcdUrl), { method: "POST", ca, cert, key }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
      response.on("end", () => {
        if (response.statusCode === 200) resolve(JSON.parse(text));
        else reject(new Error(`etcd ${path}: ${response.statusCode} ${text}`));
      });
    });
    call.on("error", reject);
    call.end(JSON.stringify(body));
  });
}
