/** What a Windows guest offers instead of logs and exec. */
export function windowsLogsText(ip: string): string {
  return `vk-cocoon: kubectl logs is not supported on Windows guests; connect via RDP to ${ip}\n`;
}

export function windowsExecText(ip: string): string {
  return `vk-cocoon: kubectl exec is not supported on Windows guests. Connect via RDP to ${ip}.\n`;
}
