/** Agents that are accepted and refused. */
import { accepts, agent, refuses, type SchemaCase } from "./schema-case.ts";

const digest = `sha256:${"a".repeat(64)}`;
const mustBeRelative = "image must be repo[:tag] when mode is clone (no registry port or digest)";

export const agentCases: readonly SchemaCase[] = [
  accepts("the plainest set gets all defaults", agent({}), {
    filled: {
      snapshotPolicy: "always",
      hibernatePolicy: "retain",
      nodePool: "default",
      agent: { image: "team/base:v7", replicas: 0, mode: "clone", os: "linux", backend: "cloud-hypervisor" },
    },
  }),
  accepts("null counts as not set", agent({ mode: null, os: null, backend: null }), {
    filled: { agent: { mode: "clone", os: "linux", backend: "cloud-hypervisor" } },
  }),
  refuses("spec without agent", {}, "spec.agent: Required value"),
  refuses("agent without image", { agent: {} }, "spec.agent.image: Required value"),
  refuses("empty image", agent({ image: "" }), "spec.agent.image"),
  refuses("image that is a number", agent({ image: 7 }), "spec.agent.image", "string"),
  refuses("image beyond every length", agent({ image: "a".repeat(2049) }), "spec.agent.image: Too long"),

  accepts("no sub-agents", agent({ replicas: 0 })),
  accepts("many sub-agents", agent({ replicas: 1000 })),
  refuses(
    "negative sub-agents",
    agent({ replicas: -1 }),
    "spec.agent.replicas",
    "greater than or equal to 0",
  ),
  refuses("half a sub-agent", agent({ replicas: 1.5 }), "spec.agent.replicas"),
  refuses("sub-agents as text", agent({ replicas: "2" }), "spec.agent.replicas", "integer"),
  refuses("more sub-agents than 32 bits hold", agent({ replicas: 2 ** 31 }), "spec.agent.replicas"),

  accepts("mode clone", agent({ mode: "clone" })),
  accepts("mode run", agent({ mode: "run" })),
  refuses("mode static for an agent", agent({ mode: "static" }), "spec.agent.mode: Unsupported value"),
  refuses("mode in capitals", agent({ mode: "Clone" }), "spec.agent.mode: Unsupported value"),
  refuses("empty mode", agent({ mode: "" }), "spec.agent.mode: Unsupported value"),

  accepts("clone from a repository without tag", agent({ image: "base" })),
  accepts("clone from nested repositories", agent({ image: "a/b/c__d/e-f.g:v1" })),
  accepts("clone from a repository that looks like a host", agent({ image: "ghcr.io/a/b:1" })),
  accepts("clone from the longest tag", agent({ image: `base:${"t".repeat(128)}` })),
  refuses("clone from a tag too long", agent({ image: `base:${"t".repeat(129)}` }), mustBeRelative),
  refuses("clone from a registry with port", agent({ image: "registry:5000/a:1" }), mustBeRelative),
  refuses("clone from a digest", agent({ image: `a@${digest}` }), mustBeRelative),
  refuses("clone from an address", agent({ image: "https://example.com/x.img" }), mustBeRelative),
  refuses("clone from an upper-case repository", agent({ image: "Team/base" }), mustBeRelative),
  refuses("clone from a repository with two dots", agent({ image: "a..b" }), mustBeRelative),
  refuses("clone from a name with a blank", agent({ image: "a b" }), mustBeRelative),
  refuses("clone from a name that ends in a slash", agent({ image: "a/" }), mustBeRelative),
  accepts("run a digest", agent({ mode: "run", image: `registry:5000/a@${digest}` })),
  accepts("run a cloud image", agent({ mode: "run", image: "https://example.com/x.img?token=1" })),

  accepts("windows guest", agent({ os: "windows" })),
  accepts("android guest", agent({ os: "android" })),
  accepts("macos guest", agent({ os: "macos" })),
  refuses("unknown guest", agent({ os: "plan9" }), 'spec.agent.os: Unsupported value: "plan9"', "linux"),
  refuses("empty guest", agent({ os: "" }), "spec.agent.os: Unsupported value"),

  accepts("backend qemu", agent({ backend: "qemu" })),
  accepts("firecracker runs an OCI image", agent({ backend: "firecracker", mode: "run" })),
  refuses("unknown backend", agent({ backend: "xen" }), "spec.agent.backend: Unsupported value"),
  refuses(
    "firecracker cannot clone",
    agent({ backend: "firecracker" }),
    "firecracker does not support clone mode, use mode=run instead",
  ),
  refuses(
    "firecracker runs no Windows",
    agent({ backend: "firecracker", mode: "run", os: "windows" }),
    "firecracker does not support Windows guests",
  ),
  refuses(
    "firecracker boots no cloud image",
    agent({ backend: "firecracker", mode: "run", image: "http://example.com/x.img" }),
    "firecracker requires an OCI image, cloudimg URLs are not supported",
  ),
  refuses(
    "everything wrong with firecracker is said at once",
    agent({ backend: "firecracker", os: "windows", image: "https://example.com/x.img" }),
    "firecracker does not support Windows guests",
    "firecracker requires an OCI image",
    "firecracker does not support clone mode",
    mustBeRelative,
  ),

  ...["ssh", "rdp", "vnc", "adb"].map((connType) => accepts(`connType ${connType}`, agent({ connType }))),
  refuses("unknown connType", agent({ connType: "telnet" }), "spec.agent.connType: Unsupported value"),

  accepts("probe port", agent({ probePort: 65_535 })),
  accepts("probe port 0", agent({ probePort: 0 })),
  refuses("probe port too high", agent({ probePort: 65_536 }), "spec.agent.probePort", "65535"),
  refuses("negative probe port", agent({ probePort: -1 }), "spec.agent.probePort"),

  accepts("storage as text", agent({ storage: "60Gi" })),
  accepts("storage as number", agent({ storage: 10_737_418_240 })),
  accepts("storage with fraction and exponent", agent({ storage: "1.5e3" })),
  refuses("storage with unknown unit", agent({ storage: "60GB" }), "spec.agent.storage"),
  refuses("storage as words", agent({ storage: "lots" }), "spec.agent.storage"),

  accepts(
    "resources as in a container",
    agent({ resources: { requests: { cpu: "2", memory: "4Gi" }, limits: { cpu: 2, memory: "4Gi" } } }),
  ),
  accepts(
    "resource claims",
    agent({ resources: { claims: [{ name: "gpu" }, { name: "net", request: "fast" }] } }),
  ),
  refuses(
    "resource without unit",
    agent({ resources: { limits: { memory: "4 Gi" } } }),
    "spec.agent.resources.limits",
  ),
  refuses(
    "a claim named twice",
    agent({ resources: { claims: [{ name: "a" }, { name: "a" }] } }),
    "Duplicate value",
  ),
  refuses(
    "a claim without name",
    agent({ resources: { claims: [{}] } }),
    "spec.agent.resources.claims[0].name",
  ),

  accepts(
    "environment",
    agent({ envFrom: [{ secretRef: { name: "env" }, prefix: "A_" }, { configMapRef: { optional: true } }] }),
    {
      filled: {
        agent: { envFrom: [{ secretRef: { name: "env" } }, { configMapRef: { name: "", optional: true } }] },
      },
    },
  ),
  refuses(
    "environment that is no list",
    agent({ envFrom: { secretRef: { name: "env" } } }),
    "spec.agent.envFrom",
  ),
  accepts(
    "service account, network, flags",
    agent({ serviceAccountName: "bot", network: "lab", forcePull: true, noDirectIO: true }),
  ),
  refuses("flag as text", agent({ forcePull: "true" }), "spec.agent.forcePull", "boolean"),
  accepts("an unknown field is dropped", agent({ flavour: "vanilla" })),

  accepts("start from another set", agent({ from: { set: "golden" } }), {
    filled: { agent: { from: { set: "golden", slot: 0, tag: "latest" } } },
  }),
  accepts(
    "start from another namespace",
    agent({ from: { namespace: "lab", set: "golden", slot: 3, tag: "hibernate" } }),
  ),
  refuses("start from no set", agent({ from: {} }), "spec.agent.from.set: Required value"),
  refuses("start from a negative slot", agent({ from: { set: "golden", slot: -1 } }), "spec.agent.from.slot"),
  refuses(
    "start from a malformed tag",
    agent({ from: { set: "golden", tag: "a b" } }),
    "spec.agent.from.tag",
  ),
  refuses(
    "start from a malformed namespace",
    agent({ from: { set: "golden", namespace: "A" } }),
    "spec.agent.from.namespace",
  ),
  refuses(
    "start from a snapshot in mode run",
    agent({ mode: "run", from: { set: "golden" } }),
    "from starts a machine from a snapshot and needs mode=clone",
  ),
];
