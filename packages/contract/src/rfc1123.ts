/** Names as Kubernetes checks them (RFC 1123), with texts that say what is wrong. */
export const dnsLabelPattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/;
export const dnsSubdomainPattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

export const maxDnsLabelLength = 63;
const maxDnsSubdomainLength = 253;

/** What is wrong with a name of at most 63 characters (namespace, toolbox, container); undefined when nothing is. */
export function dnsLabelTrouble(text: string): string | undefined {
  if (text.length > maxDnsLabelLength)
    return `must be no more than ${maxDnsLabelLength} characters, has ${text.length}`;
  if (dnsLabelPattern.test(text)) return undefined;
  return "must consist of lower case letters, digits and '-', and must start and end with a letter or digit";
}

/** What is wrong with the name of an object (pod, set, node): labels joined by dots, at most 253 characters. */
export function dnsSubdomainTrouble(text: string): string | undefined {
  if (text.length > maxDnsSubdomainLength)
    return `must be no more than ${maxDnsSubdomainLength} characters, has ${text.length}`;
  if (dnsSubdomainPattern.test(text)) return undefined;
  return "must consist of lower case letters, digits, '-' and '.', and must start and end with a letter or digit";
}

export function isDnsLabel(text: string): boolean {
  return dnsLabelTrouble(text) === undefined;
}

export function isDnsSubdomain(text: string): boolean {
  return dnsSubdomainTrouble(text) === undefined;
}
