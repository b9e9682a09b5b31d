#include "cli/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>

namespace simrun {
namespace {

std::string part_name(const std::string& path) { return path + ".part" + std::to_string(::getpid()); }

bool is_directory(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool write_all(int file, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::write(file, bytes.data() + done, bytes.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

std::string probe_output(const std::string& path) {
  if (path.empty()) return "the path is empty";
  if (is_directory(path)) return "it is a directory";
  const std::string part = part_name(path);
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return std::strerror(errno);
  ::close(file);
  ::unlink(part.c_str());
  return "";
}

void write_output(const std::string& path, const std::string& bytes) {
  const std::string part = part_name(path);
  const int file = ::open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  bool ok = file >= 0 && write_all(file, bytes);
  int error = errno;
  if (file >= 0 && ::close(file) != 0 && ok) {
    ok = false;
    error = errno;
  }
  if (ok && ::rename(part.c_str(), path.c_str()) != 0) {
    ok = false;
    error = errno;
  }
  if (ok) return;
  ::unlink(part.c_str());
  throw std::runtime_error("cannot write " + path + ": " + std::strerror(error));
}

}  // namespace simrun
