/** Packages that others may install, in dependency order; a new one is one more line. */
export interface Publishable {
  readonly name: string;
  /** Its types and examples need nothing of Node. */
  readonly browser: boolean;
}

export const publishable: readonly Publishable[] = [
  { name: "core", browser: false },
  { name: "contract", browser: true },
  { name: "kube", browser: false },
  { name: "oci", browser: false },
  { name: "kubelet", browser: false },
];
