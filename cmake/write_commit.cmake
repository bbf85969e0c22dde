# Writes the commit that is built to OUT, as a C string, if it is another than the last time.
# COMMIT: what it is; empty or unknown: what git says of SOURCE.
if(COMMIT STREQUAL "" OR COMMIT STREQUAL "unknown")
  execute_process(
    COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
    OUTPUT_VARIABLE COMMIT ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
endif()
if(COMMIT STREQUAL "")
  set(COMMIT unknown)
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT "\"${COMMIT}\"\n")
