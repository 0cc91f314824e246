#include "transfer_engine.h"

int main() { return transfer_engine_answer() == 0; }
