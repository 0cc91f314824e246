#pragma once

int transfer_engine_answer();
