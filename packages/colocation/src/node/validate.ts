/** `/validate-node`: labels must not put a node under two SLO profiles, and its amplification must be sane. */
import type { Logger } from "@cocoon/core";
import { jsonEqual } from "@cocoon/core/json-patch";
import { allow, type AdmissionHandler } from "@cocoon/kube/admission";
import { nodeConflict, parseSloConfigs, sloKeys } from "../configmap/slo-config.ts";
import {
  evaluateNow,
  getReviewedObject,
  getOldObject,
  handleResource,
  type HandledResource,
  type RulePolicy,
} from "../handlers.ts";
import { readObject, readText, readTexts, type ReadonlyJson } from "../json.ts";
import { ratioAnnotation } from "../keys.ts";
import type { Refusal } from "../rules.ts";
import type { ClusterView, PodSummary } from "../view.ts";
import { readRatios } from "./amplification.ts";

export interface NodeValidatorOptions {
  readonly view: ClusterView;
  readonly policy: RulePolicy;
  readonly namespace: string;
  readonly sloConfigName: string;
  readonly maxRatio: number | undefined;
  readonly log: Logger;
}

const nodeKind: HandledResource = { resource: "nodes", kind: "Node" };

export function nodeValidator(options: NodeValidatorOptions): AdmissionHandler {
  return handleResource(nodeKind, (request) => {
    if (request.operation !== "CREATE" && request.operation !== "UPDATE") return allow();
    const node = readMetadata(getReviewedObject(request, nodeKind));
    if (request.operation === "CREATE") {
      for (const { message } of conflictRule(node, options))
        options.log.warn({ node: node.name, error: message }, "new node is under two SLO profiles");
      return evaluateNow([() => amplificationRule(node, undefined, options.maxRatio)], options.policy);
    }
    const old = readMetadata(getOldObject(request, nodeKind));
    return evaluateNow(
      [
        () => (jsonEqual(node.labels, old.labels) ? [] : conflictRule(node, options)),
        () => amplificationRule(node, old, options.maxRatio),
      ],
      options.policy,
    );
  });
}

type NodeMetadata = Omit<PodSummary, "namespace">;

function readMetadata(object: ReadonlyJson): NodeMetadata {
  const metadata = readObject(object, "metadata", "metadata") ?? {};
  return {
    name: readText(metadata, "name", "metadata.name"),
    labels: readTexts(metadata, "labels", "metadata.labels"),
    annotations: readTexts(metadata, "annotations", "metadata.annotations"),
  };
}

function* conflictRule(node: NodeMetadata, options: NodeValidatorOptions): Generator<Refusal> {
  const data = options.view.configMap(options.namespace, options.sloConfigName)?.data ?? {};
  const configs = parseSloConfigs(sloKeys, data);
  const message = nodeConflict(configs, node);
  if (message !== undefined) yield { rule: "node-slo-conflict", message };
}

/** Only what is being changed is judged: a node must stay editable whatever was set before there was a bound. */
function* amplificationRule(
  { annotations }: NodeMetadata,
  old: NodeMetadata | undefined,
  maxRatio: number | undefined,
): Generator<Refusal> {
  const text = annotations[ratioAnnotation] ?? "";
  if (text === "" || text === old?.annotations[ratioAnnotation]) return;
  const path = `metadata.annotations[${ratioAnnotation}]`;
  const read = readRatios(text);
  if ("problem" in read) {
    yield { rule: "node-amplification", message: `${path}: Invalid value: ${read.problem}` };
    return;
  }
  for (const [resource, ratio] of read.ratios) {
    if (ratio < 1)
      yield {
        rule: "node-amplification",
        message: `${path}: Invalid value: "${resource}": ${ratio} is less than 1`,
      };
    else if (maxRatio !== undefined && ratio > maxRatio)
      yield {
        rule: "node-amplification",
        message: `${path}: Invalid value: "${resource}": ${ratio} is more than the ${maxRatio} that --max-amplification-ratio allows`,
      };
  }
}
