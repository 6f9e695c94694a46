/** The API server of a kubeconfig without its user: for programs that pass on requests of other users. */
import { loadKubeTarget, type KubeconfigOptions, type KubeTarget } from "./kubeconfig.ts";
import { TlsSource, type TlsMaterial } from "./tls-material.ts";

export interface ApiEndpoint {
  readonly server: URL;
  /** How to verify the server. Read again when the file of its authority was replaced; never a client certificate. */
  readTls(): Pick<TlsMaterial, "ca" | "servername" | "rejectUnauthorized">;
}

export async function readApiEndpoint(options: KubeconfigOptions): Promise<ApiEndpoint> {
  const target = withoutUser(await loadKubeTarget(options));
  const tls = new TlsSource(target);
  return {
    server: new URL(target.cluster.server),
    readTls: () => {
      const { ca, servername, rejectUnauthorized } = tls.read({});
      return { ca, servername, rejectUnauthorized };
    },
  };
}

export function withBearerToken(target: KubeTarget, token: string): KubeTarget {
  return { ...withoutUser(target), user: { name: "bearer", token } };
}

function withoutUser(target: KubeTarget): KubeTarget {
  return { ...target, user: { name: "" }, tokenFile: undefined, impersonation: {} };
}
