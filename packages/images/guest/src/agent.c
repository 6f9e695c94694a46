/* The agent's loop. */
#define _GNU_SOURCE
#include "agent.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

int agent_epoll = -1;
static int64_t wake_ms = -1;

void agent_wake_at(int64_t when_ms) {
  if (wake_ms < 0 || when_ms < wake_ms) wake_ms = when_ms;
}

void agent_watch(int fd, uint32_t events, struct source *source) {
  struct epoll_event event = {.events = events, .data.ptr = source};
  if (epoll_ctl(agent_epoll, EPOLL_CTL_MOD, fd, &event) < 0 && errno == ENOENT)
    epoll_ctl(agent_epoll, EPOLL_CTL_ADD, fd, &event);
}

/* The kernel tells about new devices: a port may appear long after its driver. */
static int device_fd = -1;

static void device_ready(struct source *source, uint32_t events) {
  (void)source;
  (void)events;
  char message[4096];
  while (recv(device_fd, message, sizeof message, MSG_DONTWAIT) > 0) continue;
  ports_open();
}

static void watch_devices(void) {
  static struct source source = {device_ready};
  struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = 1};
  device_fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_KOBJECT_UEVENT);
  if (device_fd < 0 || bind(device_fd, (struct sockaddr *)&address, sizeof address) < 0) return;
  agent_watch(device_fd, EPOLLIN, &source);
}

static int signal_fd = -1;

static void signal_ready(struct source *source, uint32_t events) {
  (void)source;
  (void)events;
  struct signalfd_siginfo info;
  while (read(signal_fd, &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGTERM) _exit(0);
    programs_reap();
  }
}

static void watch_signals(void) {
  static struct source source = {signal_ready};
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGCHLD);
  sigaddset(&mask, SIGTERM);
  sigprocmask(SIG_BLOCK, &mask, NULL);
  signal(SIGPIPE, SIG_IGN);
  signal_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
  agent_watch(signal_fd, EPOLLIN, &source);
}

/* With "--connect PATH" it serves that Unix socket instead of the machine's ports. */
int agent_main(int argc, char **argv) {
  bool connects = argc == 3 && strcmp(argv[1], "--connect") == 0;
  if (argc > 1 && !connects) return 2;
  umask(022);
  agent_epoll = epoll_create1(EPOLL_CLOEXEC);
  watch_signals();
  if (connects) {
    if (!ports_connect(argv[2])) return 1;
  } else {
    watch_devices();
    ports_open();
    ports_listen();
  }
  for (;;) {
    struct epoll_event events[32];
    int64_t now = monotonic_ms();
    int timeout = wake_ms < 0 ? -1 : wake_ms <= now ? 0 : (int)(wake_ms - now);
    int count = epoll_wait(agent_epoll, events, 32, timeout);
    if (count < 0 && errno != EINTR) return 1;
    for (int index = 0; index < count; index++) {
      struct source *source = events[index].data.ptr;
      /* An event before this one may have ended it. */
      if (source->ready) source->ready(source, events[index].events);
    }
    now = monotonic_ms();
    wake_ms = -1;
    programs_tick(now);
    request_tick(now);
    ports_tick(now);
    ports_flush();
  }
}
