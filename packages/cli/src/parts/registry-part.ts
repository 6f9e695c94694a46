/** The snapshot registry: TLS with a certificate of the cluster's authority, closed but for the token made by `up`. */
import { join } from "node:path";
import type { Component } from "@cocoon/controlplane";
import { probeHealth } from "./probe-health.ts";
import { loopback, programArguments, programEnvironment, registryAddress, type PartContext } from "./part.ts";

export function registryPart(context: PartContext): Component {
  const { directory, ports, pki, registryToken } = context;
  const { certificate, key } = pki.leaf.components;
  return {
    name: "registry",
    summary: "keeps sleeping machines and images",
    needs: [],
    command: process.execPath,
    args: programArguments(
      "registry",
      "serve",
      `--addr=${registryAddress(context)}`,
      `--health-addr=${loopback}:${ports.registryHealth}`,
      `--root=${join(directory, "registry")}`,
      `--tls-cert-file=${certificate}`,
      `--tls-key-file=${key}`,
      "--storage=filesystem",
    ),
    env: programEnvironment(context),
    secrets: { EPOCH_REGISTRY_TOKEN: registryToken },
    probe: (options) => probeHealth(ports.registryHealth, options),
  };
}
