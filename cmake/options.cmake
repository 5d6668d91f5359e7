# How everything of Frit's own is compiled: frit_options, and the tools that make builds quicker.
include(CheckCXXSourceCompiles)
include(CheckLinkerFlag)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")  # -g1: source lines of ops are read from it
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")

find_program(FRIT_CCACHE ccache)
if(FRIT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${FRIT_CCACHE})
endif()

add_library(frit_options INTERFACE)
# A multiply and an add stay two roundings; calls between floors and thread-local variables cost one instruction.
# The frame pointers lead from a recorded op to the user's call of it (runtime/source_line.cpp).
target_compile_options(frit_options INTERFACE -fno-omit-frame-pointer -ffp-contract=off -fno-plt -ftls-model=initial-exec -Wall -Wextra)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(frit_options INTERFACE -fno-semantic-interposition)
endif()
if(FRIT_WARNINGS_AS_ERRORS)
  target_compile_options(frit_options INTERFACE -Werror)
endif()
if(FRIT_SANITIZE)
  set(frit_sanitize_flags -fsanitize=${FRIT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(frit_options INTERFACE ${frit_sanitize_flags})
  target_link_options(frit_options INTERFACE ${frit_sanitize_flags})
endif()

foreach(linker mold lld)
  find_program(FRIT_LINKER_${linker} NAMES ${linker} ld.${linker})
  if(FRIT_LINKER_${linker})
    check_linker_flag(CXX -fuse-ld=${linker} FRIT_USE_${linker})
    if(FRIT_USE_${linker})
      target_link_options(frit_options INTERFACE -fuse-ld=${linker})
      break()
    endif()
  endif()
endforeach()
