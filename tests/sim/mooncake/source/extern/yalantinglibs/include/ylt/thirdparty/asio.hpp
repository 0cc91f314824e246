#pragma once

namespace asio {
constexpr int answer = 1;
}
