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

type Verdict = "asking" | "allowed" | "denied" | "unknown";

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

export interface RightsVerdict {
  readonly verdict: Verdict;
  /** The one that is missing, where one is. */
  readonly missing?: Right;
}

async function askRights(rights: readonly Right[]): Promise<RightsVerdict> {
  const verdicts = await Promise.all(rights.map((right) => askRight(right)));
  const missing = rights[verdicts.indexOf("denied")];
  if (missing) return { verdict: "denied", missing };
  return { verdict: verdicts.includes("unknown") ? "unknown" : "allowed" };
}

/** Whether the user has all of them. */
export function useRights(rights: readonly Right[]): RightsVerdict {
  const key = JSON.stringify(rights);
  const [found, setFound] = useState<{ readonly key: string; readonly verdict: RightsVerdict }>();
  useEffect(() => {
    let isCurrent = true;
    void askRights(JSON.parse(key) as Right[]).then((verdict) => isCurrent && setFound({ key, verdict }));
    return () => {
      isCurrent = false;
    };
  }, [key]);
  if (rights.length === 0) return { verdict: "allowed" };
  return found?.key === key ? found.verdict : { verdict: "asking" };
}
