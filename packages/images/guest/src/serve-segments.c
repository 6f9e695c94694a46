/*
 * Large segments towards QEMU's user network. It takes packets of any size from a guest but announces segments of 1460 bytes, and
 * for an emulated guest a packet and its acknowledgement cost far more than their bytes. Only where that network is surely the
 * other end: it answers for its addresses with a hardware address that is made of them.
 */
#define _GNU_SOURCE
#include "serve.h"
#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PACKET_BYTES 16384
#define HEADER_BYTES 40
#define REPAIR_OFF_SILENTLY (-1)

static bool find_user_network(struct in_addr peer, char interface[IFNAMSIZ]) {
  char address[INET_ADDRSTRLEN], wanted[18], line[256];
  unsigned char *bytes = (unsigned char *)&peer.s_addr;
  inet_ntop(AF_INET, &peer, address, sizeof address);
  snprintf(wanted, sizeof wanted, "52:55:%02x:%02x:%02x:%02x", bytes[0], bytes[1], bytes[2], bytes[3]);
  FILE *table = fopen("/proc/net/arp", "re");
  bool found = false;
  while (table && !found && fgets(line, sizeof line, table)) {
    char ip[64], hardware[64], device[16];
    found = sscanf(line, "%63s %*s %*s %63s %*s %15s", ip, hardware, device) == 3 && strcmp(ip, address) == 0 &&
            strcasecmp(hardware, wanted) == 0;
    if (found) snprintf(interface, IFNAMSIZ, "%s", device);
  }
  if (table) fclose(table);
  return found;
}

/* A route to this address alone: packets to others stay as they are. */
static bool allow_large_packets(struct in_addr peer, const char *interface) {
  struct {
    struct nlmsghdr header;
    struct rtmsg route;
    struct {
      struct rtattr head;
      uint32_t value;
    } destination, device;
    struct {
      struct rtattr head, mtu;
      uint32_t value;
    } metrics;
  } message = {
      .header = {.nlmsg_len = sizeof message,
                 .nlmsg_type = RTM_NEWROUTE,
                 .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE},
      .route = {.rtm_family = AF_INET,
                .rtm_dst_len = 32,
                .rtm_table = RT_TABLE_MAIN,
                .rtm_protocol = RTPROT_STATIC,
                .rtm_scope = RT_SCOPE_LINK,
                .rtm_type = RTN_UNICAST},
      .destination = {{RTA_LENGTH(4), RTA_DST}, peer.s_addr},
      .device = {{RTA_LENGTH(4), RTA_OIF}, if_nametoindex(interface)},
      .metrics = {{RTA_LENGTH(RTA_LENGTH(4)), RTA_METRICS}, {RTA_LENGTH(4), RTAX_MTU}, PACKET_BYTES},
  };
  struct {
    struct nlmsghdr header;
    struct nlmsgerr outcome;
    char more[512];
  } answer;
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
  bool done = fd >= 0 && send(fd, &message, sizeof message, 0) == sizeof message &&
              recv(fd, &answer, sizeof answer, 0) >= (ssize_t)(sizeof answer.header + sizeof answer.outcome) &&
              answer.header.nlmsg_type == NLMSG_ERROR && answer.outcome.error == 0;
  if (fd >= 0) close(fd);
  return done;
}

/* To be called before anything was sent. What is not possible is left as it is. */
void use_large_segments(int fd) {
  struct sockaddr_in peer;
  struct tcp_info info;
  socklen_t length = sizeof peer, info_length = sizeof info;
  char interface[IFNAMSIZ];
  if (getpeername(fd, (struct sockaddr *)&peer, &length) < 0 || peer.sin_family != AF_INET) return;
  if (!find_user_network(peer.sin_addr, interface)) return;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &info_length) < 0) return;
  if (info.tcpi_pmtu < PACKET_BYTES && !allow_large_packets(peer.sin_addr, interface)) return;
  int on = 1, off = REPAIR_OFF_SILENTLY;
  struct {
    uint32_t code, value;
  } segment = {TCPOPT_MAXSEG, PACKET_BYTES - HEADER_BYTES};
  if (setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) < 0) return;
  setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_OPTIONS, &segment, sizeof segment);
  setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &off, sizeof off);
  setsockopt(fd, IPPROTO_IP, IP_OPTIONS, NULL, 0); /* makes the kernel compute the size of segments again */
}
