#!/usr/bin/env node
/** vk-cocoon: one process per VM host. Wiring only. */
import { mkdir, readFile } from "node:fs/promises";
import { networkInterfaces } from "node:os";
import { join } from "node:path";
import {
  aborted,
  createRegistry,
  Fault,
  runMain,
  startHealthServer,
  tryReadFile,
  type Logger,
  type MainContext,
} from "@cocoon/core";
import { openKubeClient } from "@cocoon/kube";
import { fileOrSelfSignedCertificates, tlsPair } from "@cocoon/kube/certificates";
import { dockerCredentials, fixedCredential, openRegistry } from "@cocoon/oci";
import { openImageLibrary, openQemuRuntime, openUserNetwork, type VmRuntime } from "@cocoon/vm";
import { unusedVariables, vkProgram, type VkConfig } from "./config.ts";
import { findPing } from "./probes/ping.ts";
import { defaultProbeTimes } from "./probes/probe.ts";
import { startVk, type VkOptions } from "./start.ts";
