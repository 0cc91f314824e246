#include "environ.h"

int environ_answer() { return asio_answer(); }
