#include <pybind11/stable_abi.h>

#include "transfer_engine.h"

STABLE_ABI_MODULE(engine, transfer_engine_answer)
