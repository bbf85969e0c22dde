# Ends with a message unless PIBENCH_INCLUDE_DIR holds PiBench's header; runs by itself, too:
# cmake -D PIBENCH_INCLUDE_DIR=FOLDER -P check_include_dir.cmake
if(NOT EXISTS "${PIBENCH_INCLUDE_DIR}/tree_api.hpp")
  message(FATAL_ERROR "PIBENCH_INCLUDE_DIR is '${PIBENCH_INCLUDE_DIR}', which holds no "
    "tree_api.hpp: give the folder include of a PiBench checkout, or leave it unset to build "
    "without the wrappers for PiBench")
endif()
