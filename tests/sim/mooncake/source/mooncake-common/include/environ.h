#pragma once

int asio_answer();
int environ_answer();
