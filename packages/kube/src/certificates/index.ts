/**
 * Serving certificates: where a TLS server's certificate comes from and how it changes without a restart.
 */
export {
  followCertificates,
  readPair,
  tlsPair,
  type ServingCertificates,
  type ServingPair,
} from "./serving-certificates.ts";
