/**
 * The cluster and user: `--kubeconfig`, else `KUBECONFIG`, else `~/.kube/config`, else the pod's service account. Several files
 * are merged as kubectl does it: the first file that names a thing wins.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import { isIPv6 } from "node:net";
import { delimiter, dirname, isAbsolute, join, resolve } from "node:path";
import { Fault, getErrorMessage, systemCode } from "@cocoon/core";
// The package's entry loads all generated API classes: 50 MB and 0.7 s that no program here needs. These modules
// are what it reads kubeconfigs with, and load nothing else.
import {
  newClusters,
  newContexts,
  newUsers,
  type Cluster,
  type Context,
  type User,
} from "@kubernetes/client-node/dist/config_types.js";
import { readKubeEnvironment, type KubeEnvironment } from "./config.ts";
import { kubeconfigSchema, type RawKubeconfig, type RawUser } from "./kubeconfig-schema.ts";

export interface KubeconfigOptions {
  readonly kubeconfig?: string | undefined;
  readonly context?: string | undefined;
  readonly environment?: KubeEnvironment;
}

/** One cluster and one user, with every path absolute. */
export interface KubeTarget {
  readonly source: string;
  readonly context: string;
  readonly namespace: string | undefined;
  readonly cluster: Cluster;
  readonly user: User;
  /** What a kubeconfig can say about a user beyond what the `User` of the Kubernetes client keeps. */
  readonly tokenFile: string | undefined;
  readonly impersonation: Readonly<Record<string, string | readonly string[]>>;
}

const largestKubeconfigBytes = 4 * 1024 * 1024;

export async function loadKubeTarget(options: KubeconfigOptions): Promise<KubeTarget> {
  const environment = options.environment ?? readKubeEnvironment();
  const list = options.kubeconfig ?? environment.kubeconfig;
  if (list !== undefined) return chooseContext(await readFiles(splitFiles(list)), options.context);
  if (existsSync(environment.homeKubeconfig))
    return chooseContext(await readFiles([environment.homeKubeconfig]), options.context);
  const tokenFile = join(environment.serviceAccountDirectory, "token");
  if (environment.serviceHost && existsSync(tokenFile)) return inClusterTarget(environment);
  throw invalid(
    `no cluster is configured: there is no --kubeconfig, no KUBECONFIG, no ${environment.homeKubeconfig} and no ` +
      `service account of a pod (${tokenFile}); point --kubeconfig or KUBECONFIG at a kubeconfig`,
  );
}

function splitFiles(list: string): string[] {
  return list
    .split(delimiter)
    .filter((path) => path !== "")
    .map((path) => resolve(path));
}

interface LoadedFile {
  readonly path: string;
  readonly raw: RawKubeconfig;
  readonly clusters: readonly Cluster[];
  readonly contexts: readonly Context[];
  readonly users: readonly User[];
}

/** Of several files, missing ones are skipped, as kubectl does; one must be there. */
async function readFiles(paths: readonly string[]): Promise<LoadedFile[]> {
  const present = paths.filter((path) => existsSync(path));
  if (present.length === 0)
    throw invalid(
      `kubeconfig ${paths.join(", ")} does not exist; point --kubeconfig or KUBECONFIG at a kubeconfig`,
    );
  return Promise.all(present.map(readFile));
}

async function readFile(path: string): Promise<LoadedFile> {
  const raw = kubeconfigSchema.safeParse(await parseFile(path));
  if (!raw.success) {
    const causes = raw.error.issues.map((issue) => ({
      field: issue.path
        .map((part) => (typeof part === "number" ? `[${part}]` : `.${String(part)}`))
        .join("")
        .slice(1),
      message: issue.message,
    }));
    const list = causes.map((cause) => `${cause.field || "the file"}: ${cause.message}`).join("; ");
    throw new Fault("invalid", `kubeconfig ${path}: ${list}`, { causes });
  }
  const directory = dirname(path);
  const clusters = newClusters(raw.data.clusters);
  const users = newUsers(raw.data.users);
  for (const cluster of clusters) if (cluster.caFile) cluster.caFile = absolute(directory, cluster.caFile);
  for (const user of users) {
    if (user.certFile) user.certFile = absolute(directory, user.certFile);
    if (user.keyFile) user.keyFile = absolute(directory, user.keyFile);
  }
  return { path, raw: raw.data, clusters, users, contexts: newContexts(raw.data.contexts) };
}

async function parseFile(path: string): Promise<unknown> {
  let text: string;
  try {
    const { size } = statSync(path);
    if (size > largestKubeconfigBytes)
      throw new Fault("tooLarge", `it has ${size} bytes, more than ${largestKubeconfigBytes}`);
    text = readFileSync(path, "utf8");
  } catch (error) {
    const why =
      systemCode(error) === "EACCES" ? "permission denied; run as its owner" : getErrorMessage(error);
    throw invalid(`kubeconfig ${path} cannot be read: ${why}`, error);
  }
  try {
    if (text.trimStart().startsWith("{")) return JSON.parse(text) as unknown;
    const { parse } = await import("yaml"); // loaded for those who need it: many kubeconfigs here are JSON
    return parse(text);
  } catch (error) {
    const firstLine = getErrorMessage(error).split("\n")[0] ?? "";
    throw invalid(`kubeconfig ${path} is not YAML: ${firstLine}; repair or replace it`, error);
  }
}

function chooseContext(files: readonly LoadedFile[], wanted: string | undefined): KubeTarget {
  const where = files.map((file) => file.path).join(", ");
  const contexts = files.flatMap((file) => file.contexts);
  const name = wanted ?? files.map((file) => file.raw["current-context"]).find(Boolean);
  if (!name)
    throw invalid(
      `kubeconfig ${where} has no current-context; choose one with --context: ${listed(contexts)}`,
    );
  const context = contexts.find((each) => each.name === name);
  if (!context) throw invalid(`kubeconfig ${where} has no context "${name}"; it has: ${listed(contexts)}`);
  const cluster = findNamed(files, context.cluster, (file) => file.clusters);
  if (!cluster) throw unknownName(`contexts[${name}].context.cluster`, context.cluster, files);
  checkServer(cluster.item, cluster.file.path);
  const source = `context "${name}" of ${cluster.file.path}`;
  const base = { source, context: name, namespace: context.namespace, cluster: cluster.item };
  if (!context.user) return { ...base, user: { name: "" }, tokenFile: undefined, impersonation: {} };
  const user = findNamed(files, context.user, (file) => file.users);
  if (!user) throw unknownName(`contexts[${name}].context.user`, context.user, files);
  return { ...base, ...completeUser(user.item, user.file) };
}

function listed(items: readonly { readonly name: string }[]): string {
  return items.map((item) => item.name).join(", ") || "none";
}

function findNamed<T extends { readonly name: string }>(
  files: readonly LoadedFile[],
  name: string,
  getItems: (file: LoadedFile) => readonly T[],
): { readonly item: T; readonly file: LoadedFile } | undefined {
  for (const file of files) {
    const item = getItems(file).find((each) => each.name === name);
    if (item) return { item, file };
  }
  return undefined;
}

function unknownName(field: string, name: string, files: readonly LoadedFile[]): Fault {
  const where = files.map((file) => file.path).join(", ");
  const known = field.endsWith("cluster")
    ? files.flatMap((file) => file.clusters)
    : files.flatMap((file) => file.users);
  return invalid(`kubeconfig ${where}: ${field} is "${name}", which is not there; known: ${listed(known)}`);
}

function checkServer(cluster: Cluster, path: string): void {
  const url = URL.parse(cluster.server);
  if (url?.protocol === "https:" || url?.protocol === "http:") return;
  throw invalid(
    `kubeconfig ${path}: clusters[${cluster.name}].cluster.server is "${cluster.server}", not an https:// URL`,
  );
}

function completeUser(
  user: User,
  file: LoadedFile,
): Pick<KubeTarget, "user" | "tokenFile" | "impersonation"> {
  const raw = file.raw.users.find((each) => each.name === user.name)?.user ?? {};
  const directory = dirname(file.path);
  const tokenFile = raw.tokenFile ? absolute(directory, raw.tokenFile) : undefined;
  const command = raw.exec?.command;
  const exec: unknown =
    command?.includes("/") === true ? { ...raw.exec, command: absolute(directory, command) } : raw.exec;
  return { user: { ...user, exec }, tokenFile, impersonation: impersonationHeaders(raw) };
}

function impersonationHeaders(user: RawUser): Record<string, string | readonly string[]> {
  const headers: Record<string, string | readonly string[]> = {};
  if (user.as) headers["impersonate-user"] = user.as;
  if (user["as-uid"]) headers["impersonate-uid"] = user["as-uid"];
  if (user["as-groups"]?.length) headers["impersonate-group"] = user["as-groups"];
  for (const [name, values] of Object.entries(user["as-user-extra"] ?? {}))
    headers[`impersonate-extra-${encodeURIComponent(name.toLowerCase())}`] = values;
  return headers;
}

function absolute(directory: string, path: string): string {
  return isAbsolute(path) ? path : join(directory, path);
}

function inClusterTarget(environment: KubeEnvironment): KubeTarget {
  const host = environment.serviceHost ?? "";
  const directory = environment.serviceAccountDirectory;
  const namespaceFile = join(directory, "namespace");
  return {
    source: `the service account in ${directory}`,
    context: "in-cluster",
    namespace: existsSync(namespaceFile) ? readFileSync(namespaceFile, "utf8").trim() : undefined,
    cluster: {
      name: "in-cluster",
      server: `https://${isIPv6(host) ? `[${host}]` : host}:${environment.servicePort ?? "443"}`,
      caFile: join(directory, "ca.crt"),
      skipTLSVerify: false,
    },
    user: { name: "service-account" },
    tokenFile: join(directory, "token"),
    impersonation: {},
  };
}

function invalid(message: string, cause?: unknown): Fault {
  return new Fault("invalid", message, { cause });
}
