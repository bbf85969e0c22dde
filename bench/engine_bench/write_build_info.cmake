# Writes OUT, C++ constants that tell what was built; only when something in it changed. Run at
# every build, since the commit changes without a new configuration.
execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
if(failed)
  set(commit "not built from a checkout")
else()
  execute_process(COMMAND git -C ${SOURCE} diff --quiet HEAD -- RESULT_VARIABLE changed ERROR_QUIET)
  if(changed)
    string(APPEND commit ", with changes")
  endif()
endif()
set(text "inline constexpr char kCommit[] = \"${commit}\";
inline constexpr char kCompiler[] = \"${COMPILER}\";
inline constexpr char kBuildType[] = \"${BUILD_TYPE}\";
inline constexpr char kSanitizer[] = \"${SANITIZER}\";
")
if(EXISTS ${OUT})
  file(READ ${OUT} old)
endif()
if(NOT "${old}" STREQUAL "${text}")
  file(WRITE ${OUT} "${text}")
endif()
