/** The API server's answers about users: whose token it is, and what a user may do. */
import type { Frozen } from "@cocoon/core/frozen";
import type * as authentication from "kubernetes-types/authentication/v1.d.ts";
import type * as authorization from "kubernetes-types/authorization/v1.d.ts";
import type { CallOptions, KubeClient } from "./client.ts";
import { resourceType, type KubeObject } from "../object.ts";

export type KubeUser = Frozen<authentication.UserInfo>;

type Review<T extends { spec: object }> = KubeObject & Frozen<Pick<T, Extract<keyof T, "spec" | "status">>>;
type Attributes = Pick<
  Frozen<authorization.SubjectAccessReviewSpec>,
  "resourceAttributes" | "nonResourceAttributes"
>;

const version = { version: "v1", namespaced: false };
const tokenReviews = resourceType<Review<authentication.TokenReview>>({
  ...version,
  group: "authentication.k8s.io",
  kind: "TokenReview",
});
const accessReviews = resourceType<Review<authorization.SubjectAccessReview>>({
  ...version,
  group: "authorization.k8s.io",
  kind: "SubjectAccessReview",
});

/** Undefined when the token is not valid. Throws when that could not be found out. */
export async function findTokenUser(
  client: KubeClient,
  token: string,
  options: CallOptions,
): Promise<KubeUser | undefined> {
  const { status } = await client.create(tokenReviews, { metadata: {}, spec: { token } }, options);
  return status?.authenticated && status.user?.username ? status.user : undefined;
}

/** Undefined when the user may do it, else the reason. Throws when that could not be found out. */
export async function findAccessRefusal(
  client: KubeClient,
  access: { readonly user: KubeUser; readonly attributes: Attributes },
  options: CallOptions,
): Promise<string | undefined> {
  const { username: user = "", ...identity } = access.user;
  const spec = { user, ...identity, ...access.attributes };
  const { status } = await client.create(accessReviews, { metadata: {}, spec }, options);
  return status?.allowed ? undefined : status?.reason || "no rule allows it";
}
