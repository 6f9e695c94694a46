/** Where things are at the API server. */
const group = "/apis/cocoonset.cocoonstack.io/v1";

export function setPath(namespace: string, name = ""): string {
  return `${group}/namespaces/${namespace}/cocoonsets${name === "" ? "" : `/${name}`}`;
}

export function hibernationPath(namespace: string, name = ""): string {
  return `${group}/namespaces/${namespace}/cocoonhibernations${name === "" ? "" : `/${name}`}`;
}

export function podPath(namespace: string, name: string, subresource = ""): string {
  return `/api/v1/namespaces/${namespace}/pods/${name}${subresource === "" ? "" : `/${subresource}`}`;
}

export function nodePath(name: string): string {
  return `/api/v1/nodes/${name}`;
}

export function queryText(values: Readonly<Record<string, string | readonly string[]>>): string {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(values))
    for (const each of Array.isArray(value) ? (value as readonly string[]) : [value as string])
      query.append(key, each);
  return `?${query.toString()}`;
}
