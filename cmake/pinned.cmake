# grout_pinned: the aligned bf16 GEMM of a recorded earlier revision, for paired comparison with today's in one program (see
# compare/pinned.h). Its files come from git when the library is built, or from GROUT_PINNED_SOURCE. Where they are not to be had, or
# there is no CUDA toolkit, the library says so at run time instead. A machine without history takes the folder that another one
# extracted: build/pinned/a5bc54b.
set(grout_pinned_commit a5bc54bb109ed520eca7fac4fc2bdbad1ebd33e6)
set(grout_pinned_headers b35fd30eb59dfd27afd286cde48d9baf848ac0dfdd4d08cff3b5a370bb2a3e95)  # sha256sum common/*.cuh gemm/*.cuh | sha256sum
set(GROUT_PINNED_SOURCE "" CACHE PATH "Folder with the files of the pinned revision and a file PINNED_COMMIT that names it; \
empty: git provides them")
string(SUBSTRING ${grout_pinned_commit} 0 7 pinned_name)
set(pinned_missing "")

if(GROUT_PINNED_SOURCE)
  set(pinned_tree ${GROUT_PINNED_SOURCE})
  if(NOT EXISTS ${pinned_tree}/PINNED_COMMIT)
    message(FATAL_ERROR "GROUT_PINNED_SOURCE=${pinned_tree} has no file PINNED_COMMIT, which names the revision whose files lie "
                        "there: ${grout_pinned_commit} is needed.")
  endif()
  file(STRINGS ${pinned_tree}/PINNED_COMMIT pinned_found LIMIT_COUNT 1)
  if(NOT pinned_found STREQUAL grout_pinned_commit)
    message(FATAL_ERROR "GROUT_PINNED_SOURCE=${pinned_tree} is revision '${pinned_found}', by its PINNED_COMMIT; "
                        "${grout_pinned_commit} is needed.")
  endif()
  file(GLOB pinned_headers LIST_DIRECTORIES FALSE RELATIVE ${pinned_tree} ${pinned_tree}/common/*.cuh ${pinned_tree}/gemm/*.cuh)
  list(SORT pinned_headers)
  set(pinned_sums)
  foreach(header IN LISTS pinned_headers)
    file(SHA256 ${pinned_tree}/${header} sum)
    string(APPEND pinned_sums "${sum}  ${header}\n")
  endforeach()
  string(SHA256 pinned_sums "${pinned_sums}")
  if(NOT pinned_sums STREQUAL grout_pinned_headers)
    message(FATAL_ERROR "GROUT_PINNED_SOURCE=${pinned_tree}: common/*.cuh and gemm/*.cuh are not those of revision ${pinned_name} "
                        "(SHA-256 of their sums ${pinned_sums}, ${grout_pinned_headers} is needed).")
  endif()
  set(pinned_stamp ${pinned_tree}/PINNED_COMMIT)
else()
  find_program(GROUT_GIT git)
  mark_as_advanced(GROUT_GIT)
  if(NOT GROUT_GIT)
    set(pinned_missing "there is no git")
  else()
    execute_process(COMMAND ${GROUT_GIT} cat-file -e ${grout_pinned_commit}^{commit} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
                    RESULT_VARIABLE rc ERROR_VARIABLE output OUTPUT_QUIET)
    if(NOT rc EQUAL 0)
      string(REGEX REPLACE "\n.*" "" output "${output}")
      set(pinned_missing "git has no such commit here (${output})")
    endif()
  endif()
  # The archive is made when the library is built, once.
  set(pinned_tree ${PROJECT_BINARY_DIR}/pinned/${pinned_name})
  set(pinned_stamp ${pinned_tree}/PINNED_COMMIT)
  if(NOT pinned_missing)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/pinned/commit CONTENT "${grout_pinned_commit}\n")
    add_custom_command(OUTPUT ${pinned_stamp}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${pinned_tree}
      COMMAND ${GROUT_GIT} -C ${PROJECT_SOURCE_DIR} archive --output=${pinned_tree}.tar ${grout_pinned_commit} common gemm
      COMMAND ${CMAKE_COMMAND} -E chdir ${pinned_tree} ${CMAKE_COMMAND} -E tar xf ${pinned_tree}.tar
      COMMAND ${CMAKE_COMMAND} -E copy ${PROJECT_BINARY_DIR}/pinned/commit ${pinned_stamp}
      COMMENT "Extracting revision ${pinned_name}" VERBATIM)
  endif()
endif()
if(pinned_missing)
  message(STATUS "Grout: pinned revision ${pinned_name} is not here: ${pinned_missing}")
elseif(NOT grout_have_cuda)
  set(pinned_missing "there is no CUDA toolkit")
endif()

if(pinned_missing)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/pinned/pinned_missing.cpp CONTENT [=[
#include "compare/pinned.h"
namespace pinned {
std::string commit() { return "@grout_pinned_commit@"; }
std::string missing() { return R"sentence(pinned revision @pinned_name@ is not here: @pinned_missing@)sentence"; }
std::string gemm(const Gemm&, Chosen*) { return missing(); }
}  // namespace pinned
]=] @ONLY)
  add_library(grout_pinned STATIC EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/pinned/pinned_missing.cpp)
  target_link_libraries(grout_pinned PRIVATE grout_headers)
else()
  add_library(grout_pinned STATIC EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/compare/pinned.cu)
  target_link_libraries(grout_pinned PRIVATE grout_nvcc)  # not grout_headers: the include path of today's
  configure_file(compare/pinned.h ${PROJECT_BINARY_DIR}/pinned/include/compare/pinned.h COPYONLY)
  target_include_directories(grout_pinned PRIVATE ${pinned_tree} ${PROJECT_BINARY_DIR}/pinned/include)
  target_compile_definitions(grout_pinned PRIVATE grout=grout_pinned GROUT_PINNED_COMMIT="${grout_pinned_commit}")
  set_source_files_properties(compare/pinned.cu PROPERTIES OBJECT_DEPENDS ${pinned_stamp})
endif()
