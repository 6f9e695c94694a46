/** Whether the user may do something: the API server's answer, asked once a minute at most. */
import { useEffect, useState } from "react";
import { kube } from "./client.ts";

export interface Right {
  readonly verb: string;
  readonly group?: string;
  readonly resource: string;
  readonly subresource?: string;
  readonly namespace?: string;
  readonly name?: string;
}

export type Verdict = "asking" | "allowed" | "denied" | "unknown";

interface Review {
  readonly status?: { readonly allowed?: boolean };
}

const keptMs = 60_000;
const answers = new Map<string, { readonly at: number; readonly verdict: Promise<Verdict> }>();

export const cocoonGroup = "cocoonset.cocoonstack.io";

export function describeRight({ verb, group = "", resource, subresource, namespace }: Right): string {
  const what = `${resource}${subresource ? `/${subresource}` : ""}${group ? `.${group}` : ""}`;
  return `${verb} ${what}${namespace ? ` in namespace ${namespace}` : ""}`;
}

export function forgetRights(): void {
  answers.clear();
}

function askRight(right: Right): Promise<Verdict> {
  const key = JSON.stringify(right);
  const known = answers.get(key);
  if (known && Date.now() - known.at < keptMs) return known.verdict;
  const body = {
    apiVersion: "authorization.k8s.io/v1",
    kind: "SelfSubjectAccessReview",
    spec: { resourceAttributes: right },
  };
  const verdict = kube<Review>("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", {
    method: "POST",
    body,
  }).then(
    (review): Verdict => (review.status?.allowed ? "allowed" : "denied"),
    (): Verdict => "unknown",
  );
  answers.set(key, { at: Date.now(), verdict });
  return verdict;
}

export function useRight(right: Right | undefined): Verdict {
  const key = right && JSON.stringify(right);
  const [found, setFound] = useState<{ readonly key: string; readonly verdict: Verdict }>();
  useEffect(() => {
    if (key === undefined) return undefined;
    let isCurrent = true;
    void askRight(JSON.parse(key) as Right).then((verdict) => isCurrent && setFound({ key, verdict }));
    return () => {
      isCurrent = false;
    };
  }, [key]);
  if (key === undefined) return "allowed";
  return found?.key === key ? found.verdict : "asking";
}
