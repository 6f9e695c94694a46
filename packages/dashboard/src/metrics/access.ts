/** Metrics tell about all namespaces: they are for users who may read /metrics of the API server, too. */
import { Fault } from "@cocoon/core";
import * as z from "zod";
import type { Upstream } from "../api/upstream.ts";
import type { SignedIn } from "../auth/session-cookies.ts";

const answerSchema = z.object({ status: z.object({ allowed: z.boolean() }) });

export async function assertMaySeeMetrics(
  upstream: Upstream,
  { token }: SignedIn,
  signal: AbortSignal,
): Promise<void> {
  const review = {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SelfSubjectAccessReview",
    spec: { nonResourceAttributes: { path: "/metrics", verb: "get" } },
  };
  const { status, body } = await upstream.json({
    method: "POST",
    path: "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    token,
    contentType: "application/json",
    body: Buffer.from(JSON.stringify(review)),
    signal,
  });
  if (status === 401) throw new Fault("unauthorized", "the API server no longer accepts the token");
  const answer = answerSchema.safeParse(body);
  if (!answer.success)
    throw new Fault("unavailable", `the API server answered ${status} when asked for rights`);
  if (!answer.data.status.allowed)
    throw new Fault("forbidden", "the health page needs the right to get the nonResourceURL /metrics");
}
