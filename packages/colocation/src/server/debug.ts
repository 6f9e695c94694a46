/** What a replica has loaded, for those who may see it: the API server says who (a token, and a right to the path). */
import { getErrorMessage } from "@cocoon/core";
import { findAccessRefusal, findTokenUser, type KubeClient } from "@cocoon/kube";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import { rootQuota } from "../keys.ts";
import { writeResources } from "../resources.ts";
import type { ClusterView } from "../view.ts";

export interface DebugOptions {
  readonly client: KubeClient;
  readonly view: ClusterView;
  readonly configuration: unknown;
}

/** Paths and what they show; `/elasticQuota` has the shape that Koordinator's has. */
export function debugRoutes({ client, view, configuration }: DebugOptions): Record<string, RequestListener> {
  const pages: Readonly<Record<string, () => unknown>> = {
    "/elasticQuota": () => quotaPage(view),
    "/debug/quotas": () => quotaPage(view),
    "/debug/profiles": () =>
      view.profiles().map(({ name, spec, percent, skipsResources, problem }) => ({
        name,
        percent,
        skipsResources,
        ...(problem === undefined ? {} : { problem }),
        spec,
      })),
    "/debug/config": () => configuration,
  };
  return Object.fromEntries(
    Object.entries(pages).map(([path, page]): [string, RequestListener] => [
      path,
      (request, response) => void answer({ client, path, page }, request, response),
    ]),
  );
}

function quotaPage(view: ClusterView): object {
  const quotas = view.quotas().all();
  const infos = quotas.map(({ name, parent, isParent, allowsLending, max, min }): [string, unknown] => [
    name,
    {
      name,
      parentName: parent,
      isParent,
      allowLentResource: allowsLending,
      max: writeResources(max),
      min: writeResources(min),
    },
  ]);
  const parents = [rootQuota, ...quotas.filter((each) => each.isParent).map(({ name }) => name)];
  const hierarchy = parents.map((name): [string, unknown] => [
    name,
    view
      .quotas()
      .children(name)
      .map((each) => each.name)
      .toSorted(),
  ]);
  return {
    quotaInfoMap: Object.fromEntries<unknown>(infos),
    quotaHierarchyInfo: Object.fromEntries<unknown>(hierarchy),
  };
}

interface Page {
  readonly client: KubeClient;
  readonly path: string;
  readonly page: () => unknown;
}

const authorizationMs = 5_000;

async function answer(
  { client, path, page }: Page,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  request.resume();
  try {
    const signal = AbortSignal.timeout(authorizationMs);
    const refusal = await findRefusal({ client, path, token: bearer(request) }, signal);
    if (refusal) return send(response, refusal.status, { error: refusal.text });
    send(response, 200, page());
  } catch (error) {
    send(response, 503, { error: `could not ask the API server who you are: ${getErrorMessage(error)}` });
  }
}

function send(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { "content-type": "application/json", "x-content-type-options": "nosniff" });
  response.end(`${JSON.stringify(body)}\n`);
}

function bearer(request: IncomingMessage): string | undefined {
  return /^Bearer ([\w.~+/=-]{1,8192})$/.exec(request.headers.authorization ?? "")?.[1];
}

async function findRefusal(
  {
    client,
    path,
    token,
  }: { readonly client: KubeClient; readonly path: string; readonly token: string | undefined },
  signal: AbortSignal,
): Promise<{ readonly status: number; readonly text: string } | undefined> {
  if (!token) return { status: 401, text: "a bearer token is needed" };
  const user = await findTokenUser(client, token, { signal });
  if (!user) return { status: 401, text: "the token is not valid" };
  const attributes = { nonResourceAttributes: { path, verb: "get" } };
  const refusal = await findAccessRefusal(client, { user, attributes }, { signal });
  return refusal === undefined ? undefined : { status: 403, text: `${user.username} may not get ${path}` };
}
