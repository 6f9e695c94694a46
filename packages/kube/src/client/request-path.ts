/** Where the API server serves a kind: `/api/v1/namespaces/NS/pods/NAME/status`, and the query behind it. */
import { Fault } from "@cocoon/core";
import { formatApiVersion, keyText, type KubeObject, type ObjectKey, type ResourceType } from "../object.ts";

type AnyType = ResourceType<KubeObject>;

export function collectionPath(type: AnyType, namespace: string | undefined): string {
  const root = type.group === "" ? `/api/${type.version}` : `/apis/${formatApiVersion(type)}`;
  const scope = type.namespaced && namespace ? `/namespaces/${segment(namespace, "namespace")}` : "";
  return `${root}${scope}/${type.plural}`;
}

export function objectPath(type: AnyType, key: ObjectKey, subresource?: string): string {
  if (type.namespaced && !key.namespace)
    throw new Fault("badRequest", `${type.plural} "${key.name}": a namespace is needed`);
  const path = `${collectionPath(type, key.namespace)}/${segment(key.name, "name")}`;
  return subresource
    ? `${path}/${subresource
        .split("/")
        .map((part) => segment(part, "subresource"))
        .join("/")}`
    : path;
}

export function queryText(
  parameters: Readonly<Record<string, string | number | boolean | undefined>>,
): string {
  const parts: string[] = [];
  for (const [name, value] of Object.entries(parameters))
    if (value !== undefined && value !== "") parts.push(`${name}=${encodeURIComponent(value)}`);
  return parts.length === 0 ? "" : `?${parts.join("&")}`;
}

/** Names come from users and other objects: they must not be able to point at another path. */
function segment(text: string, what: string): string {
  if (text === "" || text === "." || text === ".." || text.includes("/"))
    throw new Fault("badRequest", `"${text}" cannot be a ${what} of a Kubernetes object`);
  return encodeURIComponent(text);
}

export function describeObject(type: AnyType, key: ObjectKey): string {
  return `${type.plural} "${keyText(key)}"`;
}
