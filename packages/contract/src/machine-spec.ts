/** The agent and the toolbox of a CocoonSet. What the API server can check is checked there, also without the webhook. */
import * as z from "zod";
import { relativeReferenceSource } from "./image-reference.ts";
import { dnsLabelPattern, dnsSubdomainPattern } from "./rfc1123.ts";
import { celRules, field } from "./schema.ts";
import { envFromSchema, vmOptions } from "./vm-options.ts";

export const agentModes = ["clone", "run"] as const;
const toolboxModes = ["run", "clone", "static"] as const;

/** Rules that an agent and a toolbox share; a static toolbox is not managed here and exempt. */
const machineRules = [
  {
    rule: "self.mode == 'static' || self.backend != 'firecracker' || self.os != 'windows'",
    message: "firecracker does not support Windows guests",
  },
  {
    rule: "self.mode == 'static' || self.backend != 'firecracker' || !has(self.image) || !(self.image.startsWith('http://') || self.image.startsWith('https://'))",
    message: "firecracker requires an OCI image, cloudimg URLs are not supported",
  },
  {
    rule: "self.backend != 'firecracker' || self.mode != 'clone'",
    message: "firecracker does not support clone mode, use mode=run instead",
  },
  {
    rule: `self.mode != 'clone' || !has(self.image) || self.image == '' || self.image.matches(r'${relativeReferenceSource}')`,
    message: "image must be repo[:tag] when mode is clone (no registry port or digest)",
    fieldPath: ".image",
  },
] as const;

const sourceSchema = z.object({
  namespace: field
    .text("Namespace of the other set, if it is not this one; it must grant the use of its snapshots.", {
      max: 63,
      pattern: dnsLabelPattern,
    })
    .optional(),
  set: field.text("Name of the set whose machine is copied.", {
    min: 1,
    max: 63,
    pattern: dnsSubdomainPattern,
  }),
  slot: field.int32("Slot of that machine; 0 is the main agent.", { min: 0 }).default(0),
  tag: field
    .text("Tag of the snapshot to start from.", { max: 128, pattern: /^[A-Za-z0-9_][A-Za-z0-9._-]*$/ })
    .default("latest"),
});

export const agentSchema = z
  .object({
    replicas: field
      .int32("Number of sub-agents, forked from the main agent. The main agent always exists in addition.", {
        min: 0,
      })
      .default(0),
    image: z.string().min(1).max(2048).meta({
      description:
        "What the machine starts from: in mode clone a snapshot in the registry (repo[:tag]), in mode run an OCI image or the http(s) address of a cloud image.",
    }),
    mode: field
      .choice(agentModes, "How the machine starts: clone from a snapshot, or run by booting an image.")
      .default("clone"),
    envFrom: envFromSchema
      .meta({
        description: "Environment of the pod's container, from ConfigMaps and Secrets.",
        "x-kubernetes-list-type": "atomic",
      })
      .optional(),
    serviceAccountName: field.text("Service account of the pods.", { max: 253 }).optional(),
    from: sourceSchema
      .meta({
        description:
          "Start the main agent from a snapshot of another set instead of image; its identity (host name, keys, machine id) is refreshed.",
      })
      .optional(),
    forkFrom: z
      .object({
        set: z
          .string()
          .min(1)
          .max(63)
          .regex(dnsSubdomainPattern)
          .meta({ description: "Name of the set, of the same namespace, whose main agent is forked." }),
      })
      .meta({
        description:
          "Start the main agent as a fork of the running main agent of another set, on its node (set spec.nodeName to it); both go on.",
      })
      .optional(),
    ...vmOptions,
  })
  .meta(
    celRules(
      ...machineRules,
      {
        rule: "!has(self.forkFrom) || !has(self.from)",
        message: "forkFrom and from exclude each other",
        fieldPath: ".forkFrom",
      },
      {
        rule: "!has(self.from) || self.mode == 'clone'",
        message: "from starts a machine from a snapshot and needs mode=clone",
        fieldPath: ".from",
      },
    ),
  );

export const toolboxSchema = z
  .object({
    name: z
      .string()
      .min(1)
      .max(63)
      .regex(dnsLabelPattern)
      .meta({
        description: "Name of the toolbox, part of its pod's and its machine's name; not a number.",
        ...celRules({
          // Slots are numbers. What does not fit into 64 bits is not a number to any reader and stays allowed.
          rule: "!self.matches('^[0-9]{1,19}$') || (size(self) == 19 && self > '9223372036854775807')",
          message: "must not be purely numeric (conflicts with agent slot naming)",
        }),
      }),
    image: field.text("As in spec.agent; needed unless the toolbox is static.", { max: 2048 }).optional(),
    mode: field
      .choice(
        toolboxModes,
        "How the machine starts: run boots an image, clone starts from a snapshot, static adopts a machine that exists already and is never created or destroyed.",
      )
      .default("run"),
    staticIP: field.text("Address of a static machine.", { max: 64 }).optional(),
    staticVMID: field.text("Id of a static machine.", { max: 253 }).optional(),
    awaitAddress: field
      .flag(
        "Static only: the address is not known yet; wait until the pod carries the id and ip of the machine.",
      )
      .optional(),
    vncPort: field.port("VNC port of a static machine.").optional(),
    ...vmOptions,
  })
  .meta(
    celRules(
      ...machineRules,
      {
        rule: "self.mode == 'static' || (has(self.image) && self.image != '')",
        message: "image is required when mode is run or clone",
      },
      {
        rule: "self.mode != 'static' || (has(self.awaitAddress) && self.awaitAddress) || (has(self.staticIP) && self.staticIP != '')",
        message: "staticIP is required when mode=static",
      },
      {
        rule: "self.mode != 'static' || (has(self.awaitAddress) && self.awaitAddress) || (has(self.staticVMID) && self.staticVMID != '')",
        message: "staticVMID is required when mode=static",
      },
      {
        rule: "self.mode != 'static' || !has(self.staticIP) || self.staticIP == '' || isIP(self.staticIP)",
        message: "staticIP must be an IP address",
        fieldPath: ".staticIP",
      },
    ),
  );

export type AgentSpec = z.output<typeof agentSchema>;
export type ToolboxSpec = z.output<typeof toolboxSchema>;
