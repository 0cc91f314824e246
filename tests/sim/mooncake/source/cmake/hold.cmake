while(NOT "${FILE}" STREQUAL "" AND EXISTS "${FILE}")
  execute_process(COMMAND ${CMAKE_COMMAND} -E sleep 0.2)
endwhile()
