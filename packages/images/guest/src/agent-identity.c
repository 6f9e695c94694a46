/* A new identity after a clone or a restore. The order matters: randomness first, addresses last. */
#define _GNU_SOURCE
#include "agent.h"
#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define EPOCH_FILE "/run/cocoon-epoch"
#define MAX_INTERFACES 16

static char epoch[128];
static bool epoch_known;

/* Kept in a file as well: the agent may be restarted. */
const char *agent_epoch(void) {
  if (!epoch_known) read_text(EPOCH_FILE, epoch, sizeof epoch);
  epoch_known = true;
  return epoch;
}

static void remember_epoch(const char *value) {
  snprintf(epoch, sizeof epoch, "%s", value);
  epoch_known = true;
  replace_text(EPOCH_FILE, epoch, 0600);
}

struct interface {
  char name[IFNAMSIZ];
  char device[256];
};

static int by_device(const void *left, const void *right) {
  return strcmp(((const struct interface *)left)->device, ((const struct interface *)right)->device);
}

/* Real interfaces in the order of their PCI addresses, which their device paths sort by. */
static size_t list_interfaces(struct interface *found) {
  size_t count = 0;
  DIR *directory = opendir("/sys/class/net");
  for (struct dirent *entry; directory && count < MAX_INTERFACES && (entry = readdir(directory));) {
    char path[300], *device;
    if (entry->d_name[0] == '.' || strlen(entry->d_name) >= IFNAMSIZ) continue;
    snprintf(path, sizeof path, "/sys/class/net/%s/device", entry->d_name);
    if (!(device = realpath(path, NULL))) continue;
    snprintf(found[count].name, IFNAMSIZ, "%.15s", entry->d_name);
    snprintf(found[count].device, sizeof found[count].device, "%.255s", device);
    free(device);
    count++;
  }
  if (directory) closedir(directory);
  qsort(found, count, sizeof *found, by_device);
  return count;
}

/* Runs a program of the guest and waits; its output goes nowhere. */
static int run(char *const arguments[]) {
  pid_t child = fork();
  if (child == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(null, fd);
    setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
    execvp(arguments[0], arguments);
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) < 0) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* How an interface is to be. */
struct nic {
  char mac[32], address[64], gateway[64], dns[256], search[256], mtu[16];
};

/*
 * systemd-networkd keeps an interface as its files say; they may name the old MAC. Ours comes first in its order and
 * is gone at the next boot, when the seed disk speaks again.
 */
static bool tell_networkd(const char *interface, const struct nic *nic) {
  if (access("/run/systemd/netif", F_OK) < 0) return false;
  const char *address = nic->address, *gateway = nic->gateway, *dns = nic->dns;
  bool alone = strstr(address, "/32") != NULL;
  char path[128], text[2048];
  make_directories("/run/systemd/network", 0755);
  snprintf(path, sizeof path, "/run/systemd/network/05-cocoon-%s.network", interface);
  size_t used = (size_t)snprintf(text, sizeof text, "[Match]\nName=%s\n\n", interface);
  if (atoi(nic->mtu) > 0) used += (size_t)snprintf(text + used, sizeof text - used, "[Link]\nMTUBytes=%s\n\n", nic->mtu);
  used += (size_t)snprintf(text + used, sizeof text - used, "[Network]\n");
  if (strcmp(address, "dhcp") == 0)
    used += (size_t)snprintf(text + used, sizeof text - used, "DHCP=ipv4\n\n[DHCPv4]\nClientIdentifier=mac\n");
  else used += (size_t)snprintf(text + used, sizeof text - used, "Address=%s\n", address);
  char words[256];
  snprintf(words, sizeof words, "%s", strcmp(dns, "-") == 0 || strcmp(address, "dhcp") == 0 ? "" : dns);
  for (char *rest = words, *word; (word = strsep(&rest, ","));)
    if (*word && used < sizeof text - 64) used += (size_t)snprintf(text + used, sizeof text - used, "DNS=%s\n", word);
  snprintf(words, sizeof words, "%s", strcmp(nic->search, "-") == 0 ? "" : nic->search);
  for (char *comma = words; (comma = strchr(comma, ','));) *comma = ' ';
  if (*words) used += (size_t)snprintf(text + used, sizeof text - used, "Domains=%s\n", words);
  if (strcmp(address, "dhcp") != 0 && strcmp(gateway, "-") != 0)
    used += (size_t)snprintf(text + used, sizeof text - used, "\n[Route]\nGateway=%s\n%s", gateway,
                             alone ? "GatewayOnLink=yes\n" : "");
  if (!replace_text(path, text, 0644)) return false;
  run((char *const[]){"networkctl", "reload", NULL});
  return run((char *const[]){"networkctl", "reconfigure", (char *)interface, NULL}) == 0;
}

static void ask_dhcp(const char *interface) {
  char path[64];
  if (access(TOOLKIT "/bin/busybox", X_OK) == 0) {
    dhcp_start(interface);
    return;
  }
  snprintf(path, sizeof path, "/run/dhclient.%s.pid", interface);
  dhcp_stop(path);
  address_set(interface, "0.0.0.0", 0);
  link_up(interface);
  if (run((char *const[]){"dhclient", "-nw", "-pf", path, (char *)interface, NULL}) == 0) return;
  run((char *const[]){"dhcpcd", "-n", (char *)interface, NULL});
}

/* "MAC ADDRESS/PREFIX|dhcp GATEWAY|- DNS,DNS|- DOMAIN,DOMAIN|- MTU|-", "-" as MAC = keep; the last two may be absent. */
static bool parse_nic(const char *value, struct nic *nic) {
  *nic = (struct nic){.gateway = "-", .dns = "-", .search = "-", .mtu = "-"};
  return sscanf(value, "%31s %63s %63s %255s %255s %15s", nic->mac, nic->address, nic->gateway, nic->dns, nic->search,
                nic->mtu) >= 2;
}

static void apply_nic(const char *interface, const char *value) {
  struct nic nic;
  if (!parse_nic(value, &nic)) return;
  bool same_mac = strcmp(nic.mac, "-") == 0 || link_has_mac(interface, nic.mac);
  if (same_mac && link_has_address(interface, nic.address)) {
    link_announce(interface);
    return;
  }
  if (!same_mac && !link_set_mac(interface, nic.mac)) say("%s does not take the address %s", interface, nic.mac);
  if (strcmp(nic.address, "dhcp") != 0) connections_reset(interface);
  if (tell_networkd(interface, &nic)) {
    link_announce(interface);
    return;
  }
  if (strcmp(nic.address, "dhcp") == 0) {
    ask_dhcp(interface);
    return;
  }
  char *slash = strchr(nic.address, '/');
  if (slash) *slash = 0;
  if (atoi(nic.mtu) > 0) link_set_mtu(interface, atoi(nic.mtu));
  address_set(interface, nic.address, slash ? atoi(slash + 1) : 24);
  if (strcmp(nic.gateway, "-") != 0) gateway_set(interface, nic.gateway);
  if (strcmp(nic.dns, "-") != 0 && access("/run/systemd/resolve", F_OK) < 0)
    resolver_set(nic.dns, strcmp(nic.search, "-") == 0 ? NULL : nic.search);
  link_announce(interface);
}

/*
 * What runs now may ask who it is. What is on the disk stays: at its next boot the guest finds a new instance id on its
 * seed disk and so renews everything that cloud-init does once per instance.
 */
static void apply_instance_id(const char *id) {
  if (access("/run/cloud-init", F_OK) == 0) replace_text("/run/cloud-init/.instance-id", id, 0644);
}

void agent_apply_identity(struct json_object *request) {
  const char *wanted = json_text(request, "epoch", "");
  if (*wanted && strcmp(wanted, agent_epoch()) == 0) return;
  char *entropy = (char *)json_text(request, "entropy", "");
  ssize_t length = base64_decode(entropy);
  if (length > 0 && !identity_entropy(entropy, (size_t)length)) say("the kernel takes no entropy");
  int64_t clock_ms = json_number(request, "wallClockMs", 0);
  if (clock_ms > 0) identity_clock(clock_ms * 1000000);
  const char *hostname = json_text(request, "hostname", ""), *machine_id = json_text(request, "machineId", "");
  const char *instance_id = json_text(request, "instanceId", "");
  if (*hostname) identity_hostname(hostname);
  if (*machine_id && access("/etc/machine-id", F_OK) == 0) identity_machine_id(machine_id);
  size_t count;
  char **nics = json_list(request, "nics", &count);
  struct interface interfaces[MAX_INTERFACES];
  size_t present = list_interfaces(interfaces);
  for (size_t index = 0; index < count && index < present; index++) apply_nic(interfaces[index].name, nics[index]);
  if (*instance_id) apply_instance_id(instance_id);
  if (*wanted) remember_epoch(wanted);
}
