#include <cstdio>
#include <cstring>

#include "environ.h"
#include "version.h"

int main(int argc, char** argv) {
    if (argc > 1 && std::strcmp(argv[1], "--version") == 0) {
        std::printf("mooncake_master version %s\n", MOONCAKE_VERSION);
        return environ_answer() == 0;
    }
    std::fprintf(stderr, "this master only tells its version\n");
    return 1;
}
