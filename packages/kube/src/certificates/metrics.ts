/** What is worth an alert about a certificate, whatever its source. */
import { Gauge, type Registry } from "@cocoon/core";
import type { ServingCertificates } from "./serving-certificates.ts";

export function exportCertificateMetrics(
  registry: Registry,
  certificates: Pick<ServingCertificates, "daysToExpiry" | "readiness">,
  prefix = "serving_certificate",
): void {
  const registers = [registry];
  const days: Gauge = new Gauge({
    name: `${prefix}_days_to_expiry`,
    help: "Days until the certificate that is served expires; negative afterwards.",
    registers,
    collect: () => days.set(certificates.daysToExpiry()),
  });
  const ready: Gauge = new Gauge({
    name: `${prefix}_ready`,
    help: "1 when the certificate is valid and trusted where it must be, else 0.",
    registers,
    collect: () => ready.set(certificates.readiness() === undefined ? 1 : 0),
  });
}
