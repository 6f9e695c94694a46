/** A client for the test's control plane: just what the tests here call. */
import https from "node:https";
import { Fault } from "@cocoon/core";
import {
  apiVersionOf,
  type KubeClient,
  type KubeObject,
  type ObjectKey,
  type ResourceType,
} from "@cocoon/kube";
import type { TestCluster } from "@cocoon/testkit";
import { parse } from "yaml";
import { z } from "zod";

const kubeconfigSchema = z.object({
  clusters: z.array(
    z.object({ cluster: z.object({ server: z.string(), "certificate-authority-data": z.string() }) }),
  ),
  users: z.array(
    z.object({ user: z.object({ "client-certificate-data": z.string(), "client-key-data": z.string() }) }),
  ),
});

const faults: Readonly<Record<number, ConstructorParameters<typeof Fault>[0]>> = {
  404: "notFound",
  409: "conflict",
  422: "invalid",
  403: "forbidden",
};

export function openTestClient(cluster: TestCluster): KubeClient {
  const config = kubeconfigSchema.parse(parse(cluster.kubeconfig));
  const server = config.clusters[0]?.cluster;
  const user = config.users[0]?.user;
  const pem = (text = "") => Buffer.from(text, "base64");
  const agent = new https.Agent({
    keepAlive: true,
    ca: pem(server?.["certificate-authority-data"]),
    cert: pem(user?.["client-certificate-data"]),
    key: pem(user?.["client-key-data"]),
  });
  const call = <T>(method: string, path: string, body?: unknown): Promise<T> =>
    new Promise((resolve, reject) => {
      const type = method === "PATCH" ? "application/json-patch+json" : "application/json";
      const request = https.request(`${server?.server}${path}`, {
        method,
        agent,
        headers: { "content-type": type },
        timeout: 10_000,
      });
      request.on("timeout", () => request.destroy(new Error("no answer")));
      request.on("error", (cause) => reject(new Fault("unavailable", cause.message, { cause })));
      request.on("response", (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
        response.on("end", () => {
          const { statusCode = 0 } = response;
          const answer = JSON.parse(text) as T & { message?: string; reason?: string };
          if (statusCode < 300) return resolve(answer);
          const code =
            answer.reason === "AlreadyExists" ? "alreadyExists" : (faults[statusCode] ?? "unavailable");
          reject(new Fault(code, answer.message ?? text));
        });
      });
      request.end(body === undefined ? undefined : JSON.stringify(body));
    });
  const pathOf = (type: ResourceType<KubeObject>, key: Partial<ObjectKey>) => {
    const group = type.group === "" ? "/api/v1" : `/apis/${apiVersionOf(type)}`;
    const namespace = type.namespaced ? `/namespaces/${key.namespace}` : "";
    return `${group}${namespace}/${type.plural}${key.name === undefined ? "" : `/${key.name}`}`;
  };
  const unused = () => {
    throw new Error("not needed here");
  };
  return {
    get: (type, key) => call("GET", pathOf(type, key)),
    create: (type, object, { dryRun = false }) =>
      call(
        "POST",
        `${pathOf(type, { namespace: object.metadata.namespace })}${dryRun ? "?dryRun=All" : ""}`,
        {
          apiVersion: apiVersionOf(type),
          kind: type.kind,
          ...object,
        },
      ),
    update: (type, object) =>
      call(
        "PUT",
        pathOf(type, { namespace: object.metadata.namespace, name: object.metadata.name ?? "" }),
        object,
      ),
    patch: (type, { key, patch }) => call("PATCH", pathOf(type, key), patch.body),
    delete: async (type, key) => void (await call("DELETE", pathOf(type, key))),
    list: unused,
    pages: unused,
    raw: unused,
    [Symbol.asyncDispose]: async () => agent.destroy(),
  };
}
