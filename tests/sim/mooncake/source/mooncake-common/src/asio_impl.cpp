#include <asio.hpp>

int asio_answer() { return asio::answer; }
