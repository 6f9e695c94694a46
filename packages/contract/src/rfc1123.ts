/** Names as Kubernetes checks them (RFC 1123), with texts that say what is wrong. */
export const dnsLabelPattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
export const dnsSubdomainPattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

export const maxDnsLabelLength = 63;

/** What is wrong with a name of at most 63 characters (namespace, toolbox, container); undefined when nothing is. */
export function findDnsLabelProblem(text: string): string | undefined {
  if (text.length > maxDnsLabelLength)
    return `must be no more than ${maxDnsLabelLength} characters, has ${text.length}`;
  if (dnsLabelPattern.test(text)) return undefined;
  return "must consist of lower case letters, digits and '-', and must start and end with a letter or digit";
}

export function isDnsLabel(text: string): boolean {
  return findDnsLabelProblem(text) === undefined;
}

export function isDnsSubdomain(text: string): boolean {
  return text.length <= 253 && dnsSubdomainPattern.test(text);
}
