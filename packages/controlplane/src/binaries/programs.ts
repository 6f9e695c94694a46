/** The programs of the control plane and where each comes from. Versions are those of go.mod beside the sources. */
export const kubernetesVersion = "1.36.3";
export const etcdVersion = "3.6.16";

export type ProgramName =
  | "etcd"
  | "kube-apiserver"
  | "kube-controller-manager"
  | "kube-scheduler"
  | "kubectl";

export interface ControlPlaneProgram {
  readonly name: ProgramName;
  readonly version: string;
  /** Main package in the pinned Go module. */
  readonly goPackage: string;
  readonly versionArguments: readonly string[];
}

export const programs: readonly ControlPlaneProgram[] = [
  {
    name: "etcd",
    version: etcdVersion,
    goPackage: "go.etcd.io/etcd/server/v3",
    versionArguments: ["--version"],
  },
  kubernetesProgram("kube-apiserver"),
  kubernetesProgram("kubectl", ["version", "--client"]),
  kubernetesProgram("kube-controller-manager"),
  kubernetesProgram("kube-scheduler"),
];

function kubernetesProgram(
  name: Exclude<ProgramName, "etcd">,
  versionArguments: readonly string[] = ["--version"],
): ControlPlaneProgram {
  return { name, version: kubernetesVersion, goPackage: `k8s.io/kubernetes/cmd/${name}`, versionArguments };
}

/** Linker settings without which kube-apiserver takes itself for version 0.0 and refuses to start. */
export const linkerFlags = [
  "-s",
  "-w",
  `-X k8s.io/component-base/version.gitVersion=v${kubernetesVersion}`,
  `-X k8s.io/component-base/version.gitMajor=${kubernetesVersion.split(".")[0]}`,
  `-X k8s.io/component-base/version.gitMinor=${kubernetesVersion.split(".")[1]}`,
  "-X k8s.io/component-base/version.gitTreeState=clean",
].join(" ");
