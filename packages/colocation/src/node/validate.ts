/** `/validate-node`: labels must not put a node under two SLO profiles, and its amplification must be sane. */
import type { Logger } from "@cocoon/core";
import { jsonEqual } from "@cocoon/core/json-patch";
import { allow, type AdmissionHandler } from "@cocoon/kube/admission";
import { nodeConflict } from "../configmap/node-conflict.ts";
import { parseSloConfig, sloKeys } from "../configmap/slo-config.ts";
import { judgeNow, objectOf, oldObjectOf, owning, type Owned, type RuleBook } from "../handlers.ts";
import { readObject, readText, readTexts, type ReadonlyJson, type Texts } from "../json.ts";
import { ratioAnnotation } from "../keys.ts";
import type { Refusal } from "../rules.ts";
import type { ClusterView } from "../view.ts";
import { readRatios } from "./amplification.ts";

export interface NodeValidatorOptions {
  readonly view: ClusterView;
  readonly book: RuleBook;
  readonly namespace: string;
  readonly sloConfigName: string;
  /** Undefined: no upper bound. */
  readonly maxRatio: number | undefined;
  readonly log: Logger;
}

const nodeKind: Owned = { resource: "nodes", kind: "Node" };

export function nodeValidator(options: NodeValidatorOptions): AdmissionHandler {
  return owning(nodeKind, (request) => {
    if (request.operation !== "CREATE" && request.operation !== "UPDATE") return allow();
    const node = metadataOf(objectOf(request, nodeKind));
    if (request.operation === "CREATE") {
      for (const { message } of conflictRule(node, options))
        options.log.warn({ node: node.name, error: message }, "new node is under two SLO profiles");
      return judgeNow([() => amplificationRule(node, undefined, options.maxRatio)], options.book);
    }
    const old = metadataOf(oldObjectOf(request, nodeKind));
    return judgeNow(
      [
        () => (jsonEqual(node.labels, old.labels) ? [] : conflictRule(node, options)),
        () => amplificationRule(node, old, options.maxRatio),
      ],
      options.book,
    );
  });
}

interface NodeMetadata {
  readonly name: string;
  readonly labels: Texts;
  readonly annotations: Texts;
}

function metadataOf(object: ReadonlyJson): NodeMetadata {
  const metadata = readObject(object, "metadata", "metadata") ?? {};
  return {
    name: readText(metadata, "name", "metadata.name"),
    labels: readTexts(metadata, "labels", "metadata.labels"),
    annotations: readTexts(metadata, "annotations", "metadata.annotations"),
  };
}

function* conflictRule(node: NodeMetadata, options: NodeValidatorOptions): Generator<Refusal> {
  const data = options.view.configMap(options.namespace, options.sloConfigName)?.data ?? {};
  const configs = sloKeys.flatMap((key) => {
    try {
      return data[key] ? [parseSloConfig(key, data[key])] : [];
    } catch {
      return []; // told when the map is changed
    }
  });
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
  if ("trouble" in read) {
    yield { rule: "node-amplification", message: `${path}: Invalid value: ${read.trouble}` };
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
