/** docs/reference/errors.md: the catalogue of faults and what each border makes of it. */
import { Fault, faultCodes, getTraits, type FaultCode } from "@cocoon/core";
import { findOciCode } from "../../packages/registry/src/oci-fault.ts";
import { exitCode, exitCodeMeanings } from "../../packages/cli/src/run-cli.ts";
import type { Generator } from "./generator.ts";
import { code, notice, table } from "./markdown.ts";

const path = "docs/reference/errors.md";

export const errorsReference: Generator = {
  name: "errors reference",
  owns: [path],
  generate: () => [{ path, content: page() }],
};

const meanings: Readonly<Record<FaultCode, string>> = {
  badRequest: "The request makes no sense as it is",
  unauthorized: "Who are you? No credentials, or wrong ones",
  forbidden: "Known, but not allowed",
  notFound: "The authority answered that it does not exist",
  methodNotAllowed: "This resource does not know that verb",
  conflict: "Another client changed it, or its state does not allow this now",
  alreadyExists: "The name is taken",
  gone: "Too old: begin again from a fresh list",
  preconditionFailed: "It exists, but does not fit (another CPU, a newer format, another digest)",
  tooLarge: "Over a limit; the message names it",
  unsupportedMediaType: "Another kind of body is expected",
  rangeNotSatisfiable: "A part that does not exist was asked for",
  invalid: "A field is wrong; the message names it and what would be right",
  tooManyRequests: "Slow down; `Retry-After` says how long",
  internal: "A mistake of ours, or a case that is not handled",
  damaged: "Stored data is incomplete: a manifest refers to a config or blob that is missing",
  notSupported: "This backend or node cannot do it",
  unavailable: 'Could not ask: the other side does not answer. Never taken for "not there"',
  timeout: 'No answer in time. Never taken for "not there"',
  outOfSpace: "The disk, or the quota, is full",
};

function page(): string {
  const faults = faultCodes.map((fault) => {
    const { status, reason, retry } = getTraits(fault);
    return [
      code(fault),
      String(status),
      code(reason),
      code(findOciCode(new Fault(fault, ""))),
      retry ? "yes" : "no",
      meanings[fault],
    ];
  });
  const exits = Object.entries(exitCode).map(([name, number]) => [
    String(number),
    exitCodeMeanings[name as keyof typeof exitCode],
  ]);
  return `${notice("packages/core, packages/registry and packages/cli")}${intro}${table(
    ["Fault", "HTTP", "Kubernetes reason", "Registry code", "Trying again can help", "Meaning"],
    faults,
  )}${borders}${table(["Code", "Meaning"], exits)}`;
}

const intro = `# Errors

There is one error class (\`Fault\`, \`packages/core/src/fault.ts\`). Its code decides everything else: the HTTP status and the Kubernetes
reason of an answer, the code in a registry's error, and whether a controller tries again.

`;

const borders = `
The registry answers with the codes of the distribution specification (\`BLOB_UNKNOWN\`, \`MANIFEST_UNKNOWN\`, \`DIGEST_INVALID\`, …) where it
has one for the case; the column above is what a fault from elsewhere is called.

## What a person sees

| Where | How an error arrives |
|---|---|
| \`kubectl apply\` of a broken object | the API server's schema and rules first, then the webhook: every broken field in one answer |
| a pod that may not be a machine | HTTP 403, 409, 422 or 503 from the webhook, with the field and the fix, or the holder of the name |
| a set or a hibernation in problem | condition \`Degraded\` or \`Ready\` with reason and message, and an [event](events.md) |
| a machine in problem | pod annotation \`vm.cocoonstack.io/lifecycle-state-message\`, and an event |
| \`kubectl exec\` | the command's own exit code; a Kubernetes Status where there was none |
| the registry | \`{"errors":[{"code":"…","message":"…","detail":…}]}\` |

A metric counts failures of controllers by code: \`controller_faults_total\`.

## Exit codes of cocoonctl

`;
