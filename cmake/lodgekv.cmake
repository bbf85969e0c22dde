# Build rules shared by every folder.

add_library(lodgekv_flags INTERFACE)
target_include_directories(lodgekv_flags INTERFACE ${PROJECT_SOURCE_DIR})
# x86-64-v3 (AVX2, BMI) is the floor: every machine with persistent memory or CXL has it. AVX-512 is
# chosen at run time.
target_compile_options(lodgekv_flags INTERFACE
  -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Werror -march=x86-64-v3 -mclwb -mclflushopt
  # GCC 12 warns without cause where std::string is concatenated (GCC bug 105651).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(NOT CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(lodgekv_flags INTERFACE -fno-omit-frame-pointer)
endif()
# Their instrumentation hides from GCC what is set before it is used.
if(LODGEKV_SANITIZE STREQUAL "address")
  target_compile_options(lodgekv_flags INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=all -Wno-maybe-uninitialized)
  target_link_options(lodgekv_flags INTERFACE -fsanitize=address,undefined)
elseif(LODGEKV_SANITIZE STREQUAL "fuzzer")
  # The programs of tests/fuzz alone are linked with libFuzzer itself.
  target_compile_options(lodgekv_flags INTERFACE
    -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
  target_link_options(lodgekv_flags INTERFACE -fsanitize=address,undefined)
elseif(LODGEKV_SANITIZE STREQUAL "thread")
  target_compile_options(lodgekv_flags INTERFACE -fsanitize=thread -Wno-tsan
    -Wno-maybe-uninitialized)
  target_link_options(lodgekv_flags INTERFACE -fsanitize=thread)
endif()

# lodgekv_library(NAME SRCS ... DEPS ...): a static library with the project's flags.
function(lodgekv_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SRCS})
  target_link_libraries(${name} PUBLIC lodgekv_flags ${ARG_DEPS})
endfunction()

# lodgekv_test(NAME SRCS ... DEPS ... [LABELS ...] [TIMEOUT s] [RPC] [PER_ENGINE [SHARED]]): a
# GoogleTest program, one ctest entry.
# LABELS (default: unit) are those of scripts/check. RPC: it uses gRPC or protobuf's messages, and
# is not run under ThreadSanitizer. Debian builds both libraries without it, so it sees no order
# between gRPC's threads, and protobuf's headers lay out map fields otherwise than the library does.
# PER_ENGINE: a ctest entry NAME_ENGINE for each persistent engine instead, of the tests that have
# it as their parameter, alone or as an EngineCase. SHARED: and one, NAME, of those that have none.
function(lodgekv_test name)
  if(NOT LODGEKV_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "RPC;PER_ENGINE;SHARED" "TIMEOUT" "SRCS;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SRCS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${name} PRIVATE
    lodgekv_flags ${ARG_DEPS} GTest::gtest GTest::gmock GTest::gtest_main)
  if(ARG_RPC AND LODGEKV_SANITIZE STREQUAL "thread")
    set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ON)
    return()
  endif()
  set(entries "")
  if(ARG_PER_ENGINE)
    set(every_engine "")
    foreach(engine ${LODGEKV_PERSISTENT_ENGINES})
      lodgekv_engine_filter(filter ${engine})
      add_test(NAME ${name}_${engine} COMMAND ${name} --gtest_filter=${filter})
      list(APPEND entries ${name}_${engine})
      list(APPEND every_engine ${filter})
    endforeach()
  endif()
  if(ARG_SHARED)
    list(JOIN every_engine ":" every_engine)
    add_test(NAME ${name} COMMAND ${name} --gtest_filter=*-${every_engine})
    list(APPEND entries ${name})
  elseif(NOT ARG_PER_ENGINE)
    add_test(NAME ${name} COMMAND ${name})
    list(APPEND entries ${name})
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  # Only what fails is printed: of a long output a log keeps the beginning alone.
  set_tests_properties(${entries} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "${ARG_LABELS}"
    ENVIRONMENT GTEST_BRIEF=1)
  foreach(label ${ARG_LABELS})
    if(TARGET tests_${label})
      add_dependencies(tests_${label} ${name})
    endif()
  endforeach()
endfunction()

# Sets OUT to the --gtest_filter of the tests whose parameter is the engine, or an EngineCase of it.
function(lodgekv_engine_filter out engine)
  set(${out} "*/${engine}:*/${engine}_bytes*:*/${engine}_fixed64*" PARENT_SCOPE)
endfunction()

# lodgekv_add_engine(NAME [VOLATILE]): registers the engine in folder index/NAME, library
# lodgekv_NAME. Its namespace lodgekv::NAME defines `const EngineInfo& GetEngineInfo()`.
# VOLATILE: it survives no restart, as its EngineInfo says as well.
set(LODGEKV_ENGINES "" CACHE INTERNAL "engines of this build")
set(LODGEKV_PERSISTENT_ENGINES "" CACHE INTERNAL "those of them that survive a restart")
function(lodgekv_add_engine name)
  cmake_parse_arguments(ARG "VOLATILE" "" "" ${ARGN})
  add_subdirectory(${name})
  set(LODGEKV_ENGINES ${LODGEKV_ENGINES} ${name} CACHE INTERNAL "engines of this build")
  if(NOT ARG_VOLATILE)
    set(LODGEKV_PERSISTENT_ENGINES ${LODGEKV_PERSISTENT_ENGINES} ${name}
      CACHE INTERNAL "those of them that survive a restart")
  endif()
endfunction()
