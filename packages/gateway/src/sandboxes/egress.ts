/** NetworkPolicies that hold the egress rules of sandboxes, where the nodes' networks enforce them. */
import { nodeLabel } from "@cocoon/contract";
import { ignoreFault, isFault, type Abortable } from "@cocoon/core";
import { networkPolicies, nodes, type KubeClient } from "@cocoon/kube";
import { ApiError } from "../http/answer.ts";
import { ExpiringMap } from "../ports/expiring-map.ts";
import {
  buildEgressPolicy,
  buildOwnership,
  formatPolicyName,
  type EgressRules,
  type PolicyOwner,
} from "./egress-rules.ts";

const believedMs = 10_000;
const lookupMs = 10_000;

export class Egress {
  readonly #client: KubeClient;
  readonly #enforced = new ExpiringMap<boolean>(believedMs);

  constructor(client: KubeClient) {
    this.#client = client;
  }

  /** Throws 400: a rule that no node would enforce is refused, never ignored. */
  async assertEnforced(field: string): Promise<void> {
    if (await this.#enforced.get("", () => this.#readNodes())) return;
    throw new ApiError(
      400,
      `${field}: the network of the nodes cannot enforce it; it takes VK_NETWORK=cni or a bridge on every node`,
    );
  }

  /** Every node that may get the machine says so. */
  async #readNodes(): Promise<boolean> {
    const { items } = await this.#client.list(nodes, {
      labelSelector: nodeLabel.role,
      signal: AbortSignal.timeout(lookupMs),
    });
    return (
      items.length > 0 &&
      items.every(({ metadata }) => metadata.labels?.[nodeLabel.networkPolicy] === "enforced")
    );
  }

  /** Before the machine runs: it never sends what it may not. Repeatable; replaces all rules. */
  async apply(owner: PolicyOwner, rules: EgressRules, options: Abortable): Promise<void> {
    const policy = buildEgressPolicy(owner, rules);
    try {
      await this.#client.create(networkPolicies, policy, options);
    } catch (error) {
      if (!isFault(error, "alreadyExists")) throw error;
      await this.#patch(owner, { spec: policy.spec }, options);
    }
  }

  /** From now on it ends with the set. */
  async adopt(owner: PolicyOwner, uid: string, options: Abortable): Promise<void> {
    await this.#patch(owner, buildOwnership(owner, uid), options);
  }

  async remove(owner: PolicyOwner, options: Abortable): Promise<void> {
    await ignoreFault("notFound", this.#client.delete(networkPolicies, locate(owner), options));
  }

  async #patch(owner: PolicyOwner, body: object, options: Abortable): Promise<void> {
    await this.#client.patch(
      networkPolicies,
      { key: locate(owner), patch: { type: "merge", body } },
      options,
    );
  }
}

function locate(owner: PolicyOwner) {
  return { namespace: owner.namespace, name: formatPolicyName(owner) };
}
