#include <pybind11/stable_abi.h>

int store_answer();

STABLE_ABI_MODULE(store, store_answer)
