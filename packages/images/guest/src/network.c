/* IPv4 on one interface, by the old ioctls: no netlink message is worth its code for what we need. */
#define _GNU_SOURCE
#include "guest.h"
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <net/route.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int control(unsigned long request, void *argument) {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  int outcome = ioctl(fd, request, argument);
  int reason = errno;
  close(fd);
  errno = reason;
  return outcome;
}

static struct ifreq request_for(const char *interface) {
  struct ifreq request;
  memset(&request, 0, sizeof request);
  snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
  return request;
}

static bool set_flag_up(const char *interface, bool up) {
  struct ifreq request = request_for(interface);
  if (control(SIOCGIFFLAGS, &request) < 0) return false;
  if (up) request.ifr_flags |= IFF_UP;
  else request.ifr_flags &= ~IFF_UP;
  return control(SIOCSIFFLAGS, &request) == 0;
}

bool link_up(const char *interface) { return set_flag_up(interface, true); }
bool link_down(const char *interface) { return set_flag_up(interface, false); }

bool link_set_mac(const char *interface, const char *mac) {
  struct ifreq request = request_for(interface);
  unsigned char *bytes = (unsigned char *)request.ifr_hwaddr.sa_data;
  request.ifr_hwaddr.sa_family = ARPHRD_ETHER;
  if (sscanf(mac, "%hhx:%hhx:%hhx:%hhx:%hhx:%hhx", bytes, bytes + 1, bytes + 2, bytes + 3, bytes + 4, bytes + 5) != 6)
    return false;
  /* virtio_net takes a new address while up; other drivers want the link down first. */
  if (control(SIOCSIFHWADDR, &request) == 0) return true;
  if (!link_down(interface)) return false;
  bool done = control(SIOCSIFHWADDR, &request) == 0;
  return link_up(interface) && done;
}

static bool parse_ipv4(const char *text, struct sockaddr *address) {
  struct sockaddr_in in = {.sin_family = AF_INET};
  if (inet_pton(AF_INET, text, &in.sin_addr) != 1) return false;
  memcpy(address, &in, sizeof in);
  return true;
}

bool address_set(const char *interface, const char *address, int prefix) {
  struct ifreq request = request_for(interface);
  if (prefix < 0 || prefix > 32 || !parse_ipv4(address, &request.ifr_addr)) return false;
  if (control(SIOCSIFADDR, &request) < 0) return false;
  struct sockaddr_in mask = {.sin_family = AF_INET};
  mask.sin_addr.s_addr = prefix == 0 ? 0 : htonl(0xffffffffu << (32 - prefix));
  request = request_for(interface);
  memcpy(&request.ifr_netmask, &mask, sizeof mask);
  return control(SIOCSIFNETMASK, &request) == 0 && link_up(interface);
}

bool link_set_mtu(const char *interface, int mtu) {
  struct ifreq request = request_for(interface);
  request.ifr_mtu = mtu;
  return control(SIOCSIFMTU, &request) == 0;
}

/* For an address that stands alone, its gateway included, nothing is a neighbour until a route says so. */
static bool reach_directly(char *interface, const struct sockaddr *neighbour) {
  struct rtentry route;
  memset(&route, 0, sizeof route);
  route.rt_dst = *neighbour;
  struct sockaddr_in mask = {.sin_family = AF_INET, .sin_addr.s_addr = 0xffffffffu};
  memcpy(&route.rt_genmask, &mask, sizeof mask);
  route.rt_flags = RTF_UP | RTF_HOST;
  route.rt_dev = interface;
  return control(SIOCADDRT, &route) == 0 || errno == EEXIST;
}

bool gateway_set(const char *interface, const char *gateway) {
  char name[IFNAMSIZ];
  snprintf(name, sizeof name, "%s", interface);
  struct rtentry route;
  memset(&route, 0, sizeof route);
  struct sockaddr_in any = {.sin_family = AF_INET};
  memcpy(&route.rt_dst, &any, sizeof any);
  memcpy(&route.rt_genmask, &any, sizeof any);
  route.rt_flags = RTF_UP;
  route.rt_dev = name;
  while (control(SIOCDELRT, &route) == 0) continue;
  if (!parse_ipv4(gateway, &route.rt_gateway)) return false;
  route.rt_flags = RTF_UP | RTF_GATEWAY;
  if (control(SIOCADDRT, &route) == 0 || errno == EEXIST) return true;
  if (errno != ENETUNREACH || !reach_directly(name, &route.rt_gateway)) return false;
  return control(SIOCADDRT, &route) == 0 || errno == EEXIST;
}

/* servers and search: words separated by blanks or commas. */
void resolver_set(const char *servers, const char *search) {
  char text[1024] = "";
  size_t used = 0;
  if (search && *search) used += (size_t)snprintf(text, sizeof text, "search %s\n", search);
  for (char *comma = text; (comma = strchr(comma, ','));) *comma = ' ';
  char words[512];
  snprintf(words, sizeof words, "%s", servers ? servers : "");
  for (char *rest = words, *word; (word = strsep(&rest, " ,"));)
    if (*word && used < sizeof text - 64) used += (size_t)snprintf(text + used, sizeof text - used, "nameserver %s\n", word);
  if (used == 0) return;
  replace_text("/etc/resolv.conf", text, 0644);
}

static bool is_ethernet(const char *interface) {
  char path[300], type[16];
  snprintf(path, sizeof path, "/sys/class/net/%s/type", interface);
  if (read_text(path, type, sizeof type) < 0 || atoi(type) != ARPHRD_ETHER) return false;
  snprintf(path, sizeof path, "/sys/class/net/%s/device", interface);
  return access(path, F_OK) == 0; /* a real device, not a bridge or a veth made inside the guest */
}

bool link_has_mac(const char *interface, const char *mac) {
  char path[300], address[32] = "";
  snprintf(path, sizeof path, "/sys/class/net/%s/address", interface);
  read_text(path, address, sizeof address);
  return strncasecmp(address, mac, 17) == 0;
}

static bool find_link(const char *mac, char *interface, size_t capacity) {
  DIR *directory = opendir("/sys/class/net");
  if (!directory) return false;
  char best[IFNAMSIZ] = "";
  for (struct dirent *entry; (entry = readdir(directory));) {
    if (entry->d_name[0] == '.' || strlen(entry->d_name) >= IFNAMSIZ || !is_ethernet(entry->d_name)) continue;
    if (mac && !link_has_mac(entry->d_name, mac)) continue;
    if (!*best || strcmp(entry->d_name, best) < 0) memcpy(best, entry->d_name, strlen(entry->d_name) + 1);
  }
  closedir(directory);
  snprintf(interface, capacity, "%s", best);
  return *best != 0;
}

bool link_find_by_mac(const char *mac, char *interface, size_t capacity) { return find_link(mac, interface, capacity); }
bool link_first(char *interface, size_t capacity) { return find_link(NULL, interface, capacity); }

static bool address_of(const char *interface, struct in_addr *address) {
  struct ifreq request = request_for(interface);
  if (control(SIOCGIFADDR, &request) < 0) return false;
  *address = ((struct sockaddr_in *)&request.ifr_addr)->sin_addr;
  return true;
}

bool link_address(const char *interface, unsigned *address) {
  struct in_addr found;
  if (!address_of(interface, &found)) return false;
  *address = found.s_addr;
  return true;
}

bool link_has_address(const char *interface, const char *wanted) {
  struct in_addr address;
  char text[INET_ADDRSTRLEN];
  if (!address_of(interface, &address) || !inet_ntop(AF_INET, &address, text, sizeof text)) return false;
  size_t length = strlen(text);
  return strncmp(wanted, text, length) == 0 && (wanted[length] == '/' || wanted[length] == 0);
}

/* Gratuitous ARP: neighbours, and QEMU's user network, forget whom they took us for. */
void link_announce(const char *interface) {
  struct in_addr address;
  struct ifreq request = request_for(interface);
  if (!address_of(interface, &address) || control(SIOCGIFHWADDR, &request) < 0) return;
  struct sockaddr_ll broadcast = {.sll_family = AF_PACKET,
                                  .sll_protocol = htons(ETH_P_ARP),
                                  .sll_ifindex = (int)if_nametoindex(interface),
                                  .sll_halen = 6,
                                  .sll_addr = {255, 255, 255, 255, 255, 255}};
  unsigned char message[28] = {0, ARPHRD_ETHER, 8, 0, 6, 4, 0, 1};
  memcpy(message + 8, request.ifr_hwaddr.sa_data, 6);
  memcpy(message + 14, &address, 4);
  memcpy(message + 24, &address, 4);
  int fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  sendto(fd, message, sizeof message, 0, (struct sockaddr *)&broadcast, sizeof broadcast);
  close(fd);
}

void dhcp_stop(const char *pid_file) {
  char digits[32];
  if (read_text(pid_file, digits, sizeof digits) <= 0) return;
  pid_t pid = (pid_t)atoi(digits);
  if (pid > 1) kill(pid, SIGKILL); /* not asked to end: it would give back a lease that belongs to its source */
  unlink(pid_file);
}

/* The DHCP client of the toolkit, in place of the one that ran before; it stays and renews. */
void dhcp_start(const char *interface) {
  char pid_file[64];
  snprintf(pid_file, sizeof pid_file, TOOLKIT "/dhcp-%s.pid", interface);
  dhcp_stop(pid_file);
  link_up(interface);
  pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    /* Its parent ends at once, so that it belongs to process 1. */
    if (fork() != 0) _exit(0);
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3; fd++) dup2(null, fd);
    execl(TOOLKIT "/bin/busybox", "udhcpc", "-f", "-i", interface, "-p", pid_file, "-s", TOOLKIT "/bin/dhcp-event", "-t",
          "10", "-T", "1", "-A", "2", NULL);
    _exit(127);
  }
  waitpid(child, NULL, 0);
}

/* Called by udhcpc: what happened is the argument, what it learnt is in the environment. */
int dhcp_main(int argc, char **argv) {
  const char *event = argc > 1 ? argv[1] : "";
  const char *interface = getenv("interface"), *ip = getenv("ip");
  if (!interface) return 1;
  if (strcmp(event, "deconfig") == 0) {
    address_set(interface, "0.0.0.0", 0);
    return link_up(interface) ? 0 : 1;
  }
  if (strcmp(event, "bound") != 0 && strcmp(event, "renew") != 0) return 0;
  const char *mask = getenv("mask"), *router = getenv("router"), *dns = getenv("dns");
  if (!ip || !address_set(interface, ip, mask ? atoi(mask) : 24)) return 1;
  char first[64] = "";
  if (router && sscanf(router, "%63s", first) == 1) gateway_set(interface, first);
  const char *search = getenv("search");
  resolver_set(dns, search ? search : getenv("domain"));
  return 0;
}
