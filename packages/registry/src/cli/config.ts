/** What the client commands take from the environment; epoch's own names are kept. */
export interface ClientEnvironment {
  readonly server: string;
  readonly token: string | undefined;
  readonly caFile: string | undefined;
  readonly cocoon: string;
  readonly all: Readonly<Record<string, string | undefined>>;
}

export function clientEnvironment(env: ClientEnvironment["all"]): ClientEnvironment {
  return {
    server: env["EPOCH_SERVER"] || "http://127.0.0.1:8080",
    token: env["EPOCH_REGISTRY_TOKEN"] || undefined,
    caFile: env["EPOCH_CA_CERT"] || undefined,
    cocoon: env["EPOCH_COCOON_BINARY"] || "cocoon",
    all: env,
  };
}
