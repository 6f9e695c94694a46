/** Credentials from programs (`exec`) and from the older auth providers (oidc, gcp, azure) of a kubeconfig. */
import { spawn, type ChildProcess } from "node:child_process";
import type { RequestOptions } from "node:https";
import { Fault, getErrorMessage, systemCode } from "@cocoon/core";
import type { Authenticator } from "@kubernetes/client-node/dist/auth.js";
import { ExecAuth } from "@kubernetes/client-node/dist/exec_auth.js";
import type { KubeTarget } from "./kubeconfig.ts";
import type { ExecPlugin } from "./kubeconfig-schema.ts";

interface PluginCredential {
  readonly authorization?: string | undefined;
  readonly cert?: Buffer | undefined;
  readonly key?: Buffer | undefined;
}

/** Answers from memory while the credential is valid; `fresh` forgets it first. */
export type CredentialPlugin = (fresh: boolean) => Promise<PluginCredential>;

const pluginTimeoutMs = 60_000;

export function tryOpenPlugin(target: KubeTarget): CredentialPlugin | undefined {
  if (target.user.exec) return execPlugin(target, target.user.exec as ExecPlugin);
  if (target.user.authProvider) return authProviderPlugin(target);
  return undefined;
}

function execPlugin(target: KubeTarget, exec: ExecPlugin): CredentialPlugin {
  const field = `users[${target.user.name}].user.exec`;
  if (exec.interactiveMode === "Always")
    throw new Fault(
      "invalid",
      `${target.source}: ${field} wants to ask questions on a terminal (interactiveMode: Always), and there is none`,
    );
  const info = { name: "KUBERNETES_EXEC_INFO", value: JSON.stringify(execInfo(target, exec)) };
  const user = { ...target.user, exec: { ...exec, env: [...(exec.env ?? []), info] } };
  let authenticator = newExecAuth();
  return async (fresh) => {
    if (fresh) authenticator = newExecAuth();
    const options: RequestOptions = { headers: {} };
    try {
      await authenticator.applyAuthentication(user, options);
    } catch (error) {
      throw pluginFault(error, { exec, text: `${target.source}: the credential plugin of ${field}` });
    }
    return readCredential(options);
  };
}

/** What the plugin protocol hands to the program: https://kubernetes.io/docs/reference/access-authn-authz/authentication/#input-and-output-formats */
function execInfo({ cluster }: KubeTarget, exec: ExecPlugin): unknown {
  const spec = exec.provideClusterInfo
    ? {
        interactive: false,
        cluster: {
          server: cluster.server,
          "tls-server-name": cluster.tlsServerName,
          "insecure-skip-tls-verify": cluster.skipTLSVerify || undefined,
          "certificate-authority-data": cluster.caData,
          "proxy-url": cluster.proxyUrl,
        },
      }
    : { interactive: false };
  return { apiVersion: exec.apiVersion ?? "client.authentication.k8s.io/v1", kind: "ExecCredential", spec };
}

/** The library starts the program without limits; ours has no terminal to wait on and no endless time. */
function newExecAuth(): Authenticator {
  const execFn = (
    command: string,
    args: string[] | undefined,
    options: { env?: NodeJS.ProcessEnv },
  ): ChildProcess =>
    spawn(command, args ?? [], {
      ...options,
      stdio: ["ignore", "pipe", "pipe"],
      timeout: pluginTimeoutMs,
      killSignal: "SIGKILL",
    });
  return Object.assign(new ExecAuth(), { execFn });
}

function pluginFault(error: unknown, plugin: { readonly exec: ExecPlugin; readonly text: string }): Fault {
  const { exec, text } = plugin;
  if (systemCode(error) === "ENOENT")
    return new Fault(
      "invalid",
      `${text} is not installed: ${exec.command}${exec.installHint ? `; ${exec.installHint.trim()}` : ""}`,
      { cause: error },
    );
  // A message about bad JSON quotes what was printed, and that may be a credential.
  const why =
    error instanceof SyntaxError || error instanceof TypeError
      ? "it did not print an ExecCredential"
      : getErrorMessage(error).trim().slice(0, 500) || "it ended with an error and said nothing";
  return new Fault("unavailable", `${text} (${exec.command}) failed: ${why}`);
}

function authProviderPlugin(target: KubeTarget): CredentialPlugin {
  const open = async () => {
    const { KubeConfig } = await import("@kubernetes/client-node"); // the whole library, for the few who need it
    const config = new KubeConfig();
    config.loadFromClusterAndUser({ ...target.cluster, skipTLSVerify: true }, target.user);
    return config;
  };
  let config = open();
  return async (fresh) => {
    if (fresh) config = open();
    const options: RequestOptions = { headers: {} };
    try {
      await (await config).applyToHTTPSOptions(options);
    } catch (error) {
      const field = `users[${target.user.name}].user.auth-provider`;
      throw new Fault("unavailable", `${target.source}: ${field} failed: ${getErrorMessage(error)}`, {
        cause: error,
      });
    }
    return { authorization: readCredential(options).authorization };
  };
}

function readCredential(options: RequestOptions): PluginCredential {
  const headers = (options.headers ?? {}) as Readonly<Record<string, unknown>>;
  const authorization = headers["Authorization"];
  return {
    authorization: typeof authorization === "string" ? authorization : undefined,
    cert: pem(options.cert),
    key: pem(options.key),
  };
}

function pem(value: unknown): Buffer | undefined {
  return typeof value === "string" && value !== "" ? Buffer.from(value) : undefined;
}
