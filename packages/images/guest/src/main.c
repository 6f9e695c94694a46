#include "guest.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  const char *name = strrchr(argv[0], '/');
  name = name ? name + 1 : argv[0];
  if (strcmp(name, "init") == 0 && getpid() == 1) return boot_main();
  if (strcmp(name, "dhcp-event") == 0) return dhcp_main(argc, argv);
  const char *part = argc > 1 ? argv[1] : "";
  if (strcmp(part, "init") == 0 && getpid() == 1) return init_main();
  if (strcmp(part, "agent") == 0) return agent_main(argc - 1, argv + 1);
  if (strcmp(part, "serve") == 0 && argc == 2) return serve_main();
  fprintf(stderr, "usage: cocoon-guest agent [--connect SOCKET] | serve\n");
  return 2;
}
