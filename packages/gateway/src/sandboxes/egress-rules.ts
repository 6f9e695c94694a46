/** Which addresses a sandbox may open connections to. Pure. */
import { isIPv4 } from "node:net";
import { apiVersion, label } from "@cocoon/contract";
import type { NetworkPolicy } from "@cocoon/kube";
import { ApiError } from "../http/answer.ts";

/** Blocks such as 10.0.0.0/8. What is allowed beats what is denied. */
export interface EgressRules {
  readonly allow: readonly string[];
  readonly deny: readonly string[];
}

export interface EgressRequest {
  readonly allowOut?: readonly string[] | null | undefined;
  readonly denyOut?: readonly string[] | null | undefined;
  readonly internet?: boolean | null | undefined;
}

const everything = "0.0.0.0/0";
const mostBlocks = 100;

/** Undefined when nothing is denied. Throws 400 naming the field. */
export function readEgressRules({ allowOut, denyOut, internet }: EgressRequest): EgressRules | undefined {
  const deny = parseBlocks(denyOut ?? [], "network.denyOut");
  const allow = parseBlocks(allowOut ?? [], "network.allowOut");
  if (internet === false) deny.push(everything);
  return deny.length === 0 ? undefined : { allow, deny: deny.includes(everything) ? [everything] : deny };
}

function parseBlocks(values: readonly string[], field: string): string[] {
  if (values.length > mostBlocks) throw new ApiError(400, `${field}: at most ${mostBlocks} addresses`);
  return values.map((value) => {
    const [address = "", bits = "32", ...rest] = value.split("/");
    const length = Number(bits);
    const isBlock = isIPv4(address) && /^\d{1,2}$/.test(bits) && length <= 32 && rest.length === 0;
    if (!isBlock)
      throw new ApiError(
        400,
        `${field}: "${value.slice(0, 100)}" is not offered; give IPv4 addresses and blocks`,
      );
    return `${maskAddress(address, length)}/${length}`;
  });
}

function maskAddress(address: string, length: number): string {
  const number = address.split(".").reduce((sum, part) => sum * 256 + Number(part), 0);
  const size = 2 ** (32 - length);
  const masked = Math.floor(number / size) * size;
  return [24, 16, 8, 0].map((shift) => Math.floor(masked / 2 ** shift) % 256).join(".");
}

export interface PolicyOwner {
  readonly namespace: string;
  /** Of the set. */
  readonly name: string;
}

export function formatPolicyName({ name }: PolicyOwner): string {
  return `${name}-egress`;
}

export function buildEgressPolicy(owner: PolicyOwner, { allow, deny }: EgressRules): NetworkPolicy {
  const open = deny.includes(everything) ? [] : [{ ipBlock: { cidr: everything, except: [...deny] } }];
  const to = [...open, ...allow.map((cidr) => ({ ipBlock: { cidr } }))];
  return {
    metadata: {
      namespace: owner.namespace,
      name: formatPolicyName(owner),
      labels: { [label.set]: owner.name },
    },
    spec: {
      podSelector: { matchLabels: { [label.set]: owner.name } },
      policyTypes: ["Egress"],
      // A rule without addresses would allow all.
      egress: to.length === 0 ? [] : [{ to }],
    },
  };
}

/** The policy goes with its set. */
export function buildOwnership({ name }: PolicyOwner, uid: string): object {
  return { metadata: { ownerReferences: [{ apiVersion, kind: "CocoonSet", name, uid, controller: false }] } };
}
