#include <zstd.h>

#include "transfer_engine.h"

int store_answer() { return transfer_engine_answer() + (ZSTD_versionNumber() > 0 ? 1 : 0); }
