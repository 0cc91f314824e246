/* As much of Python's stable ABI (3.9 to 3.13) as an empty module needs. */
#pragma once

#include <sys/types.h>

struct Object {
    ssize_t references;
    void* type;
};

struct ModuleDef {
    Object base;
    void* init;
    ssize_t index;
    void* copy;
    const char* name;
    const char* doc;
    ssize_t size;
    void* rest[5];
};

extern "C" void* PyModule_Create2(ModuleDef* definition, int api);

#define STABLE_ABI_MODULE(module, answer)                                                                \
    static ModuleDef definition = {{1, nullptr}, nullptr, 0, nullptr, #module, "stands in for Mooncake", -1, {}}; \
    extern "C" void* PyInit_##module() { return answer() ? PyModule_Create2(&definition, 1013) : nullptr; }
