/** The snapshot registry: TLS with a certificate of the cluster's authority, closed but for the token made by `up`. */
import { join } from "node:path";
import type { Component } from "@cocoon/controlplane";
import { loopback, programPart, registryAddress, type PartContext } from "./part.ts";

export function registryPart(context: PartContext): Component {
  const { directory, ports, pki, registryToken } = context;
  const { certificate, key } = pki.leaf.components;
  return programPart(context, {
    name: "registry",
    summary: "keeps images and the snapshots of hibernated machines",
    needs: [],
    program: "registry",
    args: [
      "serve",
      `--addr=${registryAddress(context)}`,
      `--health-addr=${loopback}:${ports.registryHealth}`,
      `--root=${join(directory, "registry")}`,
      `--tls-cert-file=${certificate}`,
      `--tls-key-file=${key}`,
      "--storage=filesystem",
    ],
    secrets: { EPOCH_REGISTRY_TOKEN: registryToken },
    healthPort: ports.registryHealth,
  });
}
