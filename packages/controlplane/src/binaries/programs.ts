/** The programs of a cluster and where each comes from. Versions are those of go.mod below `go/`. */
export const kubernetesVersion = "1.36.3";
export const etcdVersion = "3.6.16";
export const metricsServerVersion = "0.9.0";
export const corednsVersion = "1.14.7";

export type ProgramName =
  | "etcd"
  | "kube-apiserver"
  | "kube-controller-manager"
  | "kube-scheduler"
  | "kubectl"
  | "metrics-server"
  | "kube-proxy"
  | "coredns";

/** What programs are for that not every cluster has. */
export type ProgramGroup = "metricsServer" | "clusterNetwork";

export interface ControlPlaneProgram {
  readonly name: ProgramName;
  readonly version: string;
  /** Directory of its go.mod, relative to `go/`. */
  readonly goModule: string;
  /** Main package in that Go module. */
  readonly goPackage: string;
  readonly linkerFlags: string;
  readonly versionArguments: readonly string[];
  /** Resolved only for clusters that have this. */
  readonly group?: ProgramGroup;
  /** There is no release to download: it is always built. */
  readonly isSourceOnly?: boolean;
}

const stripped = "-s -w";

/** Without its version, kube-apiserver takes itself for version 0.0 and refuses to start. */
const kubernetesFlags = [
  stripped,
  `-X k8s.io/component-base/version.gitVersion=v${kubernetesVersion}`,
  `-X k8s.io/component-base/version.gitMajor=${kubernetesVersion.split(".")[0]}`,
  `-X k8s.io/component-base/version.gitMinor=${kubernetesVersion.split(".")[1]}`,
  "-X k8s.io/component-base/version.gitTreeState=clean",
].join(" ");

const common = { goModule: ".", linkerFlags: kubernetesFlags, versionArguments: ["--version"] };

function kubernetesProgram(name: ProgramName): ControlPlaneProgram {
  return { ...common, name, version: kubernetesVersion, goPackage: `k8s.io/kubernetes/cmd/${name}` };
}

export const programs: readonly ControlPlaneProgram[] = [
  { ...common, name: "etcd", version: etcdVersion, goPackage: "go.etcd.io/etcd/server/v3" },
  kubernetesProgram("kube-apiserver"),
  { ...kubernetesProgram("kubectl"), versionArguments: ["version", "--client"] },
  kubernetesProgram("kube-controller-manager"),
  kubernetesProgram("kube-scheduler"),
  {
    ...common,
    name: "metrics-server",
    version: metricsServerVersion,
    goModule: "metrics-server",
    goPackage: "sigs.k8s.io/metrics-server/cmd/metrics-server",
    linkerFlags: `${stripped} -X sigs.k8s.io/metrics-server/pkg/version.gitVersion=v${metricsServerVersion}`,
    group: "metricsServer",
    isSourceOnly: true,
  },
  { ...kubernetesProgram("kube-proxy"), group: "clusterNetwork" },
  {
    ...common,
    name: "coredns",
    version: corednsVersion,
    goModule: "coredns",
    goPackage: ".",
    linkerFlags: stripped,
    versionArguments: ["-version"],
    group: "clusterNetwork",
  },
];
