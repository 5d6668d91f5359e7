# cmake --install: the library, the public headers, the internal headers that they include, and find_package(frit).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS frit EXPORT frit-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} NAMELINK_COMPONENT Development)
install(DIRECTORY frontend/include/frit DESTINATION include FILES_MATCHING PATTERN "*.h")
install(CODE "
  set(root \"${PROJECT_SOURCE_DIR}\")
  set(destination \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/include/frit-internal\")")
install(SCRIPT cmake/install_internal_headers.cmake)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/frit)
install(EXPORT frit-targets NAMESPACE frit:: DESTINATION ${package_dir})
configure_package_config_file(cmake/frit-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/frit-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/frit-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/frit-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/frit-config-version.cmake
  DESTINATION ${package_dir})
