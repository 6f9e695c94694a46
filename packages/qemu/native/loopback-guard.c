/*
 * A library in front of connect, sendto and sendmsg that refuses loopback, link-local and all addresses of this host. The
 * resolvers of /etc/resolv.conf stay reachable at port 53: QEMU sends the guest's DNS queries there.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static int is_resolver(struct in_addr address) {
  FILE *file = fopen("/etc/resolv.conf", "re");
  if (!file) return 0;
  char line[512], text[64];
  int found = 0;
  while (!found && fgets(line, sizeof line, file)) {
    struct in_addr listed;
    found = sscanf(line, " nameserver %63s", text) == 1 && inet_pton(AF_INET, text, &listed) == 1 &&
            listed.s_addr == address.s_addr;
  }
  fclose(file);
  return found;
}

static int is_interface(int family, const void *address, size_t length) {
  struct ifaddrs *all = NULL;
  if (getifaddrs(&all) != 0) return 1;
  int found = 0;
  for (struct ifaddrs *each = all; each && !found; each = each->ifa_next) {
    if (!each->ifa_addr || each->ifa_addr->sa_family != family) continue;
    const void *own = family == AF_INET ? (const void *)&((struct sockaddr_in *)each->ifa_addr)->sin_addr
                                        : (const void *)&((struct sockaddr_in6 *)each->ifa_addr)->sin6_addr;
    found = memcmp(own, address, length) == 0;
  }
  freeifaddrs(all);
  return found;
}

static int is_host4(struct in_addr address, in_port_t port) {
  unsigned int host = ntohl(address.s_addr);
  int local = host >> 24 == 127 || host >> 24 == 0 || host >> 16 == 0xa9fe || host == 0xffffffffu ||
              is_interface(AF_INET, &address, sizeof address);
  return local && !(port == htons(53) && is_resolver(address));
}

static int is_host6(const struct in6_addr *address, in_port_t port) {
  if (IN6_IS_ADDR_V4MAPPED(address)) {
    struct in_addr inner;
    memcpy(&inner, address->s6_addr + 12, sizeof inner);
    return is_host4(inner, port);
  }
  return IN6_IS_ADDR_LOOPBACK(address) || IN6_IS_ADDR_UNSPECIFIED(address) || IN6_IS_ADDR_LINKLOCAL(address) ||
         is_interface(AF_INET6, address, sizeof *address);
}

static int refused(const struct sockaddr *address, socklen_t length) {
  if (!address) return 0;
  if (address->sa_family == AF_INET && length >= sizeof(struct sockaddr_in)) {
    const struct sockaddr_in *inet = (const struct sockaddr_in *)address;
    return is_host4(inet->sin_addr, inet->sin_port);
  }
  if (address->sa_family == AF_INET6 && length >= sizeof(struct sockaddr_in6)) {
    const struct sockaddr_in6 *inet = (const struct sockaddr_in6 *)address;
    return is_host6(&inet->sin6_addr, inet->sin6_port);
  }
  return 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define REFUSE_IF(condition) if (condition) { errno = ECONNREFUSED; return -1; }

int connect(int fd, const struct sockaddr *address, socklen_t length) {
  REFUSE_IF(refused(address, length))
  return REAL(connect)(fd, address, length);
}

ssize_t sendto(int fd, const void *data, size_t bytes, int flags, const struct sockaddr *address, socklen_t length) {
  REFUSE_IF(refused(address, length))
  return REAL(sendto)(fd, data, bytes, flags, address, length);
}

ssize_t sendmsg(int fd, const struct msghdr *message, int flags) {
  REFUSE_IF(message && refused(message->msg_name, message->msg_namelen))
  return REAL(sendmsg)(fd, message, flags);
}
