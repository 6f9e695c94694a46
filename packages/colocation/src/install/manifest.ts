/** An object of an installation, as it is written down. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
}

export function manifest(
  [apiVersion, kind]: readonly [apiVersion: string, kind: string],
  metadata: Manifest["metadata"],
  content: object = {},
): Manifest {
  return { apiVersion, kind, metadata, ...content };
}
