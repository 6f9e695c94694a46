/** Toolboxes that are accepted and refused. */
import { accepts, agent, refuses, toolbox, type SchemaCase } from "./schema-case.ts";

const box = { name: "box", image: "desktop:24" };
const address = { mode: "static", staticIP: "10.20.0.9", staticVMID: "qemu-77" };
const numeric = "must not be purely numeric (conflicts with agent slot naming)";

export const toolboxCases: readonly SchemaCase[] = [
  accepts("a toolbox gets its defaults", toolbox({}), {
    filled: { toolboxes: [{ name: "box", mode: "run", os: "linux", backend: "cloud-hypervisor" }] },
  }),
  accepts("no toolboxes", agent({}, { toolboxes: [] })),
  accepts("two toolboxes", agent({}, { toolboxes: [box, { ...box, name: "other" }] })),
  refuses("toolboxes that are no list", agent({}, { toolboxes: box }), "spec.toolboxes"),

  accepts("name with dashes and digits", toolbox({ name: "a-1-b2" })),
  accepts("name that starts with a digit", toolbox({ name: "3d" })),
  accepts("longest name", toolbox({ name: "a".repeat(63) })),
  accepts("more digits than any number has", toolbox({ name: "9".repeat(20) })),
  accepts("digits just beyond 64 bits", toolbox({ name: "9223372036854775808" })),
  refuses(
    "toolbox without name",
    agent({}, { toolboxes: [{ image: "x" }] }),
    "spec.toolboxes[0].name: Required value",
  ),
  refuses("empty name", toolbox({ name: "" }), "spec.toolboxes[0].name"),
  refuses("name too long", toolbox({ name: "a".repeat(64) }), "spec.toolboxes[0].name: Too long"),
  refuses("name in capitals", toolbox({ name: "Box" }), "spec.toolboxes[0].name"),
  refuses("name with an underscore", toolbox({ name: "a_b" }), "spec.toolboxes[0].name"),
  refuses("name that ends with a dash", toolbox({ name: "a-" }), "spec.toolboxes[0].name"),
  refuses("name with a dot", toolbox({ name: "a.b" }), "spec.toolboxes[0].name"),
  refuses("name that is a slot", toolbox({ name: "0" }), "spec.toolboxes[0].name", numeric),
  refuses("name that is a padded number", toolbox({ name: "007" }), numeric),
  refuses("name that is the largest number", toolbox({ name: "9223372036854775807" }), numeric),
  refuses(
    "two toolboxes of one name",
    agent({}, { toolboxes: [box, { ...box, name: "other" }, box] }),
    "names of toolboxes must be unique",
  ),
  refuses(
    "more toolboxes than allowed",
    agent({}, { toolboxes: Array.from({ length: 513 }, (_, index) => ({ ...box, name: `t${index}` })) }),
    "spec.toolboxes: Too many",
  ),

  accepts("mode clone", toolbox({ mode: "clone" })),
  refuses("unknown mode", toolbox({ mode: "fork" }), "spec.toolboxes[0].mode: Unsupported value"),
  refuses("run without image", toolbox({ image: undefined }), "image is required when mode is run or clone"),
  refuses(
    "clone with empty image",
    toolbox({ image: "", mode: "clone" }),
    "image is required when mode is run or clone",
  ),
  refuses(
    "clone from a registry with port",
    toolbox({ mode: "clone", image: "registry:5000/x" }),
    "spec.toolboxes[0].image",
    "must be repo[:tag] when mode is clone",
  ),
  accepts("run from a registry with port", toolbox({ image: "registry:5000/x" })),

  accepts("static with address", toolbox({ ...address, image: undefined })),
  accepts("static with VNC port", toolbox({ ...address, os: "windows", vncPort: 5907, connType: "vnc" })),
  accepts("static with an IPv6 address", toolbox({ ...address, staticIP: "fd00::9" })),
  accepts("static that waits for its address", toolbox({ mode: "static", awaitAddress: true })),
  refuses(
    "static without address",
    toolbox({ mode: "static" }),
    "staticIP is required when mode=static",
    "staticVMID is required when mode=static",
  ),
  refuses(
    "static without id",
    toolbox({ ...address, staticVMID: "" }),
    "staticVMID is required when mode=static",
  ),
  refuses(
    "static that does not wait and has no address",
    toolbox({ mode: "static", awaitAddress: false, staticVMID: "x" }),
    "staticIP is required when mode=static",
  ),
  refuses(
    "static with a host name",
    toolbox({ ...address, staticIP: "host.example" }),
    "staticIP must be an IP address",
  ),
  refuses("VNC port too high", toolbox({ ...address, vncPort: 70_000 }), "spec.toolboxes[0].vncPort"),
  accepts("an address that is not used", toolbox({ staticIP: "not used" })),

  accepts(
    "static is exempt from the rules of backends",
    toolbox({ ...address, backend: "firecracker", os: "windows" }),
  ),
  accepts(
    "all machines on firecracker",
    toolbox({ backend: "firecracker" }, { agent: { image: "x", mode: "run", backend: "firecracker" } }),
  ),
  refuses(
    "another backend than the agent",
    toolbox({ backend: "firecracker" }),
    "spec.toolboxes",
    "backend of every toolbox must match spec.agent.backend",
  ),
  refuses(
    "Windows on firecracker",
    toolbox(
      { backend: "firecracker", os: "windows" },
      { agent: { image: "x", mode: "run", backend: "firecracker" } },
    ),
    "firecracker does not support Windows guests",
  ),
  refuses("unknown guest", toolbox({ os: "beos" }), "spec.toolboxes[0].os: Unsupported value"),
  refuses("unknown connType", toolbox({ connType: "smb" }), "spec.toolboxes[0].connType: Unsupported value"),
  refuses("storage as words", toolbox({ storage: "big" }), "spec.toolboxes[0].storage"),
  accepts(
    "storage, resources, network",
    toolbox({ storage: "20Gi", resources: { limits: { cpu: "1" } }, network: "lab" }),
  ),
];
