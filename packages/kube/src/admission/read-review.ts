/** AdmissionReview from the wire, read by hand: the hot path. A wrong type is a `badRequest` fault that names the field. */
import { Fault } from "@cocoon/core";
import { nestsDeeperThan } from "./json-depth.ts";
import type {
  AdmissionRequest,
  GroupVersionKind,
  GroupVersionResource,
  JsonObject,
  UserInfo,
} from "./request.ts";

type ReviewVersion = "admission.k8s.io/v1" | "admission.k8s.io/v1beta1";

export interface Review {
  readonly version: ReviewVersion;
  readonly request: AdmissionRequest;
  /** `apiVersion` and `kind` as they came, where the answer repeats them unjudged. */
  readonly envelope?: { readonly apiVersion: string; readonly kind: string };
}

const versions: Readonly<Record<string, ReviewVersion>> = {
  "admission.k8s.io/v1": "admission.k8s.io/v1",
  "admission.k8s.io/v1beta1": "admission.k8s.io/v1beta1",
};

export function readReview(body: Buffer, { maxDepth }: { readonly maxDepth: number }): Review {
  const review = asObject(parse(body, maxDepth), "AdmissionReview");
  if (!review) throw bad("the body must be an AdmissionReview object");
  const version = readVersion(review);
  const request = asObject(review["request"], "request");
  if (!request) throw bad("admission review missing request");
  return { version, request: readRequest(request) };
}

function parse(body: Buffer, maxDepth: number): unknown {
  if (body.length === 0) throw bad("the body is empty");
  if (nestsDeeperThan(body, maxDepth)) throw bad(`the body nests deeper than ${maxDepth} levels`);
  try {
    return JSON.parse(body.toString("utf8"));
  } catch {
    // The parser's own text quotes the body, which may hold a Secret, and ends up in the API server's log.
    throw bad("decode admission review: the body is not valid JSON");
  }
}

function readVersion(review: JsonObject): ReviewVersion {
  const kind = text(review, "kind");
  const apiVersion = text(review, "apiVersion");
  if (kind === "" && apiVersion === "") return "admission.k8s.io/v1";
  const version = Object.hasOwn(versions, apiVersion) ? versions[apiVersion] : undefined;
  if (kind !== "AdmissionReview" || !version)
    throw bad(
      `the body must be an AdmissionReview of admission.k8s.io/v1 or v1beta1, not ${brief(kind)} of ${brief(apiVersion)}`,
    );
  return version;
}

/** The fields of `request`; a `badRequest` fault names one that has the wrong type. */
export function readRequest(request: JsonObject): AdmissionRequest {
  return {
    uid: text(request, "uid"),
    kind: readKind(request),
    resource: readResource(request),
    subResource: text(request, "subResource"),
    name: text(request, "name"),
    namespace: text(request, "namespace"),
    operation: text(request, "operation"),
    userInfo: readUserInfo(request),
    object: asObject(request["object"], "request.object"),
    oldObject: asObject(request["oldObject"], "request.oldObject"),
    dryRun: readDryRun(request),
  };
}

const anonymous: UserInfo = { username: "", uid: "", groups: [], extra: {} };

function readKind(request: JsonObject): GroupVersionKind {
  const value = asObject(request["kind"], "kind") ?? {};
  return { group: text(value, "group"), version: text(value, "version"), kind: text(value, "kind") };
}

function readResource(request: JsonObject): GroupVersionResource {
  const value = asObject(request["resource"], "resource") ?? {};
  return { group: text(value, "group"), version: text(value, "version"), resource: text(value, "resource") };
}

function readUserInfo(request: JsonObject): UserInfo {
  const user = asObject(request["userInfo"], "userInfo");
  if (!user) return anonymous;
  const extra = asObject(user["extra"], "userInfo.extra");
  return {
    username: text(user, "username"),
    uid: text(user, "uid"),
    groups: texts(user["groups"], "userInfo.groups"),
    extra: extra ? readExtra(extra) : anonymous.extra,
  };
}

function readExtra(extra: JsonObject): Record<string, readonly string[]> {
  return Object.fromEntries(
    Object.entries(extra).map(([key, value]) => [key, texts(value, "userInfo.extra")]),
  );
}

function readDryRun(request: JsonObject): boolean {
  const value = request["dryRun"];
  if (value === undefined || value === null) return false;
  if (typeof value !== "boolean") throw bad("dryRun must be true or false");
  return value;
}

function text(object: JsonObject, field: string): string {
  const value = object[field];
  if (typeof value === "string") return value;
  if (value === undefined || value === null) return "";
  throw bad(`${field} must be a string`);
}

function texts(value: unknown, field: string): readonly string[] {
  if (value === undefined || value === null) return [];
  if (Array.isArray(value) && value.every((item) => typeof item === "string")) return value;
  throw bad(`${field} must be a list of strings`);
}

function asObject(value: unknown, field: string): JsonObject | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== "object" || Array.isArray(value)) throw bad(`${field} must be an object`);
  return value as JsonObject;
}

function bad(message: string): Fault {
  return new Fault("badRequest", message);
}

function brief(text: string): string {
  return JSON.stringify(text.length > 64 ? `${text.slice(0, 64)}…` : text);
}
