#include "guest.h"
#include <unistd.h>
int agent_main(int argc, char **argv) {
  (void)argc;
  (void)argv;
  for (;;) pause();
}
