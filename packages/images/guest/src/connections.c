/*
 * TCP connections of an address that the machine is about to lose would hang until they time out: their peers answer to
 * the old address, if at all. The kernel ends them at once, and programs see an error. Kernels without sock_diag's
 * destroy leave them; so do we.
 */
#define _GNU_SOURCE
#include "guest.h"
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef SOCK_DESTROY
#define SOCK_DESTROY 21
#endif
#define TCP_LISTEN_STATE (1u << 10)

struct diag_request {
  struct nlmsghdr header;
  struct inet_diag_req_v2 request;
};

static struct diag_request new_request(int type, int flags) {
  struct diag_request message;
  memset(&message, 0, sizeof message);
  message.header.nlmsg_len = sizeof message;
  message.header.nlmsg_type = (unsigned short)type;
  message.header.nlmsg_flags = (unsigned short)(NLM_F_REQUEST | flags);
  message.request.sdiag_protocol = IPPROTO_TCP;
  message.request.idiag_states = ~TCP_LISTEN_STATE;
  return message;
}

static void destroy(int fd, const struct inet_diag_msg *found) {
  struct diag_request message = new_request(SOCK_DESTROY, 0);
  message.request.sdiag_family = found->idiag_family;
  message.request.id = found->id;
  if (send(fd, &message, sizeof message, 0) < 0) return;
}

static bool is_from(const struct inet_diag_msg *found, unsigned address) {
  if (found->idiag_family == AF_INET) return found->id.idiag_src[0] == address;
  /* Servers for both families hold IPv4 connections as mapped addresses. */
  return found->id.idiag_src[0] == 0 && found->id.idiag_src[1] == 0 && found->id.idiag_src[2] == htonl(0xffff) &&
         found->id.idiag_src[3] == address;
}

/* True when the list has ended. */
static bool destroy_listed(int fd, char *buffer, size_t length, unsigned address) {
  for (struct nlmsghdr *header = (struct nlmsghdr *)buffer; NLMSG_OK(header, length); header = NLMSG_NEXT(header, length)) {
    if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR) return true;
    const struct inet_diag_msg *found = NLMSG_DATA(header);
    if (is_from(found, address)) destroy(fd, found);
  }
  return false;
}

static void reset_family(unsigned char family, unsigned address) {
  int list = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  int kill = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
  struct diag_request message = new_request(SOCK_DIAG_BY_FAMILY, NLM_F_DUMP);
  message.request.sdiag_family = family;
  if (list >= 0 && kill >= 0 && send(list, &message, sizeof message, 0) > 0) {
    static char buffer[32768] __attribute__((aligned(8)));
    for (ssize_t length; (length = recv(list, buffer, sizeof buffer, 0)) > 0;)
      if (destroy_listed(kill, buffer, (size_t)length, address)) break;
  }
  if (list >= 0) close(list);
  if (kill >= 0) close(kill);
}

void connections_reset(const char *interface) {
  unsigned address = 0;
  if (!link_address(interface, &address) || address == 0) return;
  reset_family(AF_INET, address);
  reset_family(AF_INET6, address);
}
